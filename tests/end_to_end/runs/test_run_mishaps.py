"""What happens to runs beside their plan: a folder that was copied, money that is told too late."""

from __future__ import annotations

import os
import shutil
import signal
from typing import Any

import pytest

from interlock.workers.runs.codon.execution import REJECTED_NOTES_MAX
from tests.end_to_end.runs.workspaces import NewYard, Yard

pytestmark = [pytest.mark.timeout(300)]

BAD_LINES = 3 * REJECTED_NOTES_MAX


def test_a_copy_of_a_workspace_begins_anew_and_is_gone_on_with(new_yard: NewYard) -> None:
    plan = """
    codons:
      - {codon: one, command: did}
      - {codon: two, command: "did; [ -e $CUES/two.go ]"}
    """
    original, copy = new_yard("original"), new_yard("copy")
    original.does(plan, "failed")
    original.ends(original.runs.resume(original.workspace), "failed")
    # The checkpoints of two runs go with it, and it has no run yet.
    shutil.copytree(original.workspace, copy.workspace, symlinks=True, dirs_exist_ok=True)

    copy.does(plan, "failed")
    copy.go("two")
    copy.ends(copy.runs.resume(copy.workspace))

    assert [run.state for run in copy.every_run()] == ["failed", "completed"]
    assert copy.shape() == ["two completed"]
    assert copy.did() == ["one", "two", "one", "two"]
    assert original.did() == ["one", "two"]
    original.go("two")
    original.ends(original.runs.resume(original.workspace))
    assert original.did() == ["one", "two"]


def test_what_an_agent_spends_counts_wherever_others_lead_it_and_after_its_end_is_kept_beside(
    new_yard: NewYard,
) -> None:
    yard = new_yard("yard")
    yard.start(f"""
    codons:
      - codon: one
        speaks: interlock
        command: >
          session; for n in {{1..{BAD_LINES}}}; do say nonsense; done; cost 5;
          hold led; cost 2; hold on; cost 3; hold ended; cost 7; hold late
    """)
    yard.meets("led")
    codon = yard.stands("running").id
    costs(yard, 5)
    yard.sees(lambda: len(yard.notes(codon, "report_refused")) == REJECTED_NOTES_MAX, what="the notes")
    moved: dict[str, Any] = {"from": "running", "to": "completing_sentinels", "metadata": {}}
    yard.answer(yard.tells("CodonTransitioned", codon="one", **moved))
    yard.go("led")
    costs(yard, 7)
    yard.go("on")
    costs(yard, 10)
    yard.meets("ended")

    # Its conductor hears of neither the end nor the last costs before it goes on.
    conductor = yard.conductor()
    os.kill(conductor, signal.SIGSTOP)
    yard.go("ended")
    yard.meets("late")
    stopped = yard.runs.stop(yard.workspace, force=True)
    yard.stands("failed")
    os.kill(conductor, signal.SIGCONT)
    yard.ends(stopped, "failed")
    yard.rests()

    found = yard.costs_hold()
    assert (found["run"], found["run_spent"], found["run_late"]) == (10, 10, 7)
    assert [note.detail["cost"] for note in yard.notes(codon, "late_costs")] == [7]
    assert len(yard.notes(codon, "report_refused")) == REJECTED_NOTES_MAX


def costs(yard: Yard, micro: int) -> None:
    """Wait until the codon's record knows what it has cost."""
    yard.sees(lambda: yard.codon().data.get("current_cost") == micro, what=f"it cost {micro}")
