"""Rare situations of runs: a folder that was copied, costs that are reported too late."""

from __future__ import annotations

import os
import shutil
import signal
from typing import Any

from interlock.systems.runs.codon.execution import REJECTED_NOTES_MAX
from tests.end_to_end.runs.workspaces import NewWorkspace, RunWorkspace

BAD_LINES = 3 * REJECTED_NOTES_MAX


def test_a_copy_of_a_workspace_starts_its_own_runs(new_workspace: NewWorkspace) -> None:
    plan = """
    codons:
      - {codon: one, command: did}
      - {codon: two, command: "did; [ -e $CUES/two.go ]"}
    """
    original, copy = new_workspace("original"), new_workspace("copy")
    original.run_to_end(plan, "failed")
    original.wait_for_end(original.runs.resume(original.folder), "failed")
    # The copy has the checkpoints of two runs, but no run of its own yet.
    shutil.copytree(original.folder, copy.folder, symlinks=True, dirs_exist_ok=True)

    copy.run_to_end(plan, "failed")
    copy.release("two")
    copy.wait_for_end(copy.runs.resume(copy.folder))

    assert [run.state for run in copy.all_runs()] == ["failed", "completed"]
    assert copy.codon_states() == ["two completed"]
    assert copy.done() == ["one", "two", "one", "two"]
    assert original.done() == ["one", "two"]
    original.release("two")
    original.wait_for_end(original.runs.resume(original.folder))
    assert original.done() == ["one", "two"]


def test_costs_count_in_any_state_and_those_after_the_end_are_kept_as_late(
    new_workspace: NewWorkspace,
) -> None:
    workspace = new_workspace("work")
    workspace.start(f"""
    codons:
      - codon: one
        speaks: interlock
        command: >
          session; for n in {{1..{BAD_LINES}}}; do say nonsense; done; cost 5;
          hold led; cost 2; hold on; cost 3; hold ended; cost 7; hold late
    """)
    workspace.wait_for_cue("led")
    codon = workspace.wait_for_state("running").id
    wait_for_costs(workspace, 5)
    workspace.wait_for(
        lambda: len(workspace.notes(codon, "report_refused")) == REJECTED_NOTES_MAX,
        what="the notes",
    )
    moved: dict[str, Any] = {"from": "running", "to": "completing_sentinels", "metadata": {}}
    workspace.wait_for_answer(workspace.send_event("CodonTransitioned", codon="one", **moved))
    workspace.release("led")
    wait_for_costs(workspace, 7)
    workspace.release("on")
    wait_for_costs(workspace, 10)
    workspace.wait_for_cue("ended")

    # A frozen supervisor learns neither of the end nor of the last costs.
    supervisor = workspace.supervisor()
    os.kill(supervisor, signal.SIGSTOP)
    workspace.release("ended")
    workspace.wait_for_cue("late")
    stopped = workspace.runs.stop(workspace.folder, force=True)
    workspace.wait_for_state("failed")
    os.kill(supervisor, signal.SIGCONT)
    workspace.wait_for_end(stopped, "failed")
    workspace.check_nothing_left()

    found = workspace.check_costs()
    assert (found["run"], found["run_spent"], found["run_late"]) == (10, 10, 7)
    assert [note.detail["cost"] for note in workspace.notes(codon, "late_costs")] == [7]
    assert len(workspace.notes(codon, "report_refused")) == REJECTED_NOTES_MAX


def wait_for_costs(workspace: RunWorkspace, micro: int) -> None:
    """Wait until these costs are in the codon's record."""
    workspace.wait_for(
        lambda: workspace.codon().data.get("current_cost") == micro, what=f"it cost {micro}"
    )
