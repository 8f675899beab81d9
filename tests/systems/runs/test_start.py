"""The start of a run: its number, its plan, the executions that count, and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from interlock.kernel.errors import InvalidPayloadError, MissedError
from interlock.kernel.record import Record, partition_of
from interlock.kernel.store.scripts import read, read_all
from interlock.systems.runs.client import Runs
from interlock.systems.runs.history import stored_execution
from interlock.systems.runs.machines.limits import MICRO_MAX
from interlock.systems.runs.outcome import CodonEnd
from interlock.systems.runs.sequence import Execution, StrangeHistoryError
from interlock.systems.runs.start import (
    RunRefusedError,
    RunSetup,
    newest_run_number,
    open_workspace,
    start_run,
)
from interlock.workers.engine.sweeps import prune
from interlock.workers.gateways.server import free_port
from tests.kernel.store.machines_runs import HOLDER, LAUNCH, complete, settle, tell
from tests.sweeping import sweeping
from tests.systems.runs.workspaces import REASON, StoredWorkspace
from tests.systems.threads.threads import client_of

LATER_MS = 3_600_000
READS_MAX = 3


def plan_of(*names: str) -> dict[str, Any]:
    """Return a stored plan of these codons."""
    steps = [{"id": name, "command": "true"} for name in names]
    return {"name": "-".join(names), "steps": steps}


TIDY, OTHER = plan_of("sort", "sweep"), plan_of("wash", "dry")


def start_plan(workspace: StoredWorkspace, plan: dict[str, Any], sha: str = "") -> str:
    """Start a run of a plan, and give it an initial checkpoint if there is one."""
    run = start_run(
        workspace.records, workspace.open(), RunSetup(plan, {"kind": "fresh"}), REASON
    ).id
    if sha:
        tell(workspace.world, "InitialCheckpointSet", run, sha=sha)
    return run


def complete_codon(workspace: StoredWorkspace, run: str, number: int, name: str, sha: str) -> str:
    """Complete a codon of a run, and return its record's id."""
    codon_id = f"{run}/{number}"
    workspace.world.create(codon_id, {"codon_id": name}, machine="codon", initial_lease=HOLDER)
    workspace.move(codon_id, "preparing", "starting")
    workspace.move(codon_id, "starting", "initializing", pid=7, log_path="x.log")
    workspace.move(codon_id, "initializing", "running", session_id="s")
    workspace.move(
        codon_id, "running", "completed", checkpoint_sha=sha, result_message_received=True
    )
    return codon_id


def fail_run(workspace: StoredWorkspace, run: str, codon: str = "") -> None:
    """End a run."""
    workspace.world.fire(run, "fail", {"reason": "enough", **({"codon": codon} if codon else {})})
    settle(workspace.world, run)


def take_initial_checkpoint(workspace: StoredWorkspace, run: str, **shas: str) -> None:
    """Give a run its initial checkpoint, and one of the workspace before it."""
    workspace.world.fire(run, "initial_checkpoint_set", shas, warrant=LAUNCH)


def newest(workspace: StoredWorkspace) -> int:
    return newest_run_number(workspace.records, workspace.id)


# --- the next number ---------------------------------------------------------------------------


def test_the_newest_run_is_found_in_a_few_looks_however_many_there_are(
    workspace: StoredWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    views, keys = workspace.records.views, workspace.world.keys
    births, reads = views.creation_digests, list[int]()

    def counted(names: Any) -> dict[str, str]:
        reads.append(1)
        return births(names)

    monkeypatch.setattr(views, "creation_digests", counted)
    last = 0
    for number in (0, 1, 2, 3, 199, 200, 201, 4_115, 5_000):
        new = [keys.record(f"{workspace.id}/{n}") for n in range(last + 1, number + 1)]
        read_all(workspace.world.client, [("HSET", key, "digest", "x") for key in new])
        last = number
        reads.clear()
        assert newest_run_number(workspace.records, workspace.id) == number
        assert len(reads) <= READS_MAX


# --- the executions that count -----------------------------------------------------------


def test_a_continuation_that_never_began_hands_on_what_counted_for_it(
    workspace: StoredWorkspace,
) -> None:
    run = start_plan(workspace, TIDY, "a" * 40)
    first = complete_codon(workspace, run, 1, "sort", "b" * 40)
    fail_run(workspace, run, "sweep")
    not_started = workspace.runs.resume(workspace.folder)
    fail_run(workspace, not_started.id)

    again = workspace.runs.resume(workspace.folder)

    assert [one["record"] for one in not_started.data["done"]] == [first]
    assert again.data["done"] == not_started.data["done"]
    assert again.data["starting"] == not_started.data["starting"]
    assert again.data["starting"]["source"]["checkpoint_sha"] == "b" * 40


def test_a_rollback_to_a_run_of_another_plan_goes_on_with_that_plan(
    workspace: StoredWorkspace,
) -> None:
    first = start_plan(workspace, TIDY, "a" * 40)
    complete_codon(workspace, first, 1, "sort", "b" * 40)
    fail_run(workspace, first)
    second = start_plan(workspace, OTHER, "c" * 40)
    complete_codon(workspace, second, 1, "wash", "d" * 40)
    fail_run(workspace, second)

    back = workspace.runs.rollback(workspace.folder, "b" * 8)

    assert back.data["plan"] == TIDY
    assert [one["codon_id"] for one in back.data["done"]] == ["sort"]
    assert back.data["starting"]["source"]["run_id"] == first


def test_what_was_rescued_is_gone_back_to_with_the_plan_by_which_it_was_made(
    workspace: StoredWorkspace,
) -> None:
    first = start_plan(workspace, TIDY, "a" * 40)
    complete_codon(workspace, first, 1, "sort", "b" * 40)
    fail_run(workspace, first)
    second = start_plan(workspace, OTHER, "c" * 40)
    done = complete_codon(workspace, second, 1, "wash", "d" * 40)
    fail_run(workspace, second)
    back = workspace.runs.rollback(workspace.folder, "b" * 8)
    take_initial_checkpoint(workspace, back.id, sha="b" * 40, rescued="e" * 40)
    fail_run(workspace, back.id)

    again = workspace.runs.rollback(workspace.folder, "e" * 8)

    assert again.data["plan"] == OTHER
    assert [one["record"] for one in again.data["done"]] == [done]
    assert again.data["starting"]["source"]["run_id"] == second


@pytest.mark.parametrize(("name", "iteration"), [("wash", None), ("sort", 0)])
def test_what_a_plan_does_not_have_cannot_count_for_it_and_nothing_begins(
    workspace: StoredWorkspace, name: str, iteration: int | None
) -> None:
    strange = Execution(codon_id=name, iteration=iteration, status=CodonEnd.COMPLETED)

    with pytest.raises(StrangeHistoryError):
        start_run(
            workspace.records,
            workspace.open(),
            RunSetup(TIDY, {"kind": "fresh"}, (strange,)),
            REASON,
        )

    assert newest(workspace) == 0


def test_what_counts_is_kept_as_it_was(workspace: StoredWorkspace) -> None:
    one = Execution(codon_id="sort", iteration=None, status=CodonEnd.SKIPPED, messages=2)

    run = start_run(
        workspace.records, workspace.open(), RunSetup(TIDY, {"kind": "fresh"}, (one,)), REASON
    )

    assert run.data["done"] == [stored_execution(one)]


def test_a_codon_at_which_its_run_ended_can_be_done_anew_though_it_never_began(
    workspace: StoredWorkspace,
) -> None:
    run = start_plan(workspace, TIDY, "a" * 40)
    complete_codon(workspace, run, 1, "sort", "b" * 40)
    fail_run(workspace, run, "sweep")

    again = workspace.runs.redo(workspace.folder)

    assert again.data["starting"]["source"]["after_codon"] == "sort"
    assert [one["codon_id"] for one in again.data["done"]] == ["sort"]


def test_the_next_run_starts_whatever_costs_were_reported(
    workspace: StoredWorkspace,
) -> None:
    run = workspace.start_run()
    codon = workspace.codon(run, cost=MICRO_MAX, upto="running")
    for _ in range(2):
        tell(workspace.world, "CostsIncremented", codon, cost_delta=MICRO_MAX)
    done = {"checkpoint_sha": "b" * 40, "result_message_received": True}
    workspace.move(codon, "running", "completed", **done)
    fail_run(workspace, run)

    start_plan(workspace, TIDY)

    assert workspace.world.record(codon).data["final_cost"] == MICRO_MAX
    assert workspace.world.record(f"{workspace.id}/2").data["before"]["spent"] == MICRO_MAX
    assert workspace.runs.costs(workspace.folder, since=2) == {
        "run": 0,
        "run_spent": 0,
        "run_late": 0,
        "total": MICRO_MAX,
        "total_spent": MICRO_MAX,
        "since": 0,
        "since_spent": 0,
    }


# --- refusals ---------------------------------------------------------------------------


def test_a_run_that_did_all_of_its_plan_is_not_gone_on_with(workspace: StoredWorkspace) -> None:
    run = start_plan(workspace, TIDY, "a" * 40)
    complete_codon(workspace, run, 1, "sort", "b" * 40)
    complete_codon(workspace, run, 2, "sweep", "c" * 40)
    complete(workspace.world, run)
    settle(workspace.world, run)
    before = workspace.world.dump()

    with pytest.raises(RunRefusedError, match="nothing of its plan is left to do; `redo` or"):
        workspace.runs.resume(workspace.folder)

    assert workspace.world.dump() == before


def test_a_workspace_is_not_closed_while_an_event_is_not_answered(
    workspace: StoredWorkspace,
) -> None:
    run = start_plan(workspace, TIDY)
    fail_run(workspace, run)
    event: Any = {"type": "RunFailed", "data": {"run_id": run, "reason": "no"}}
    mail = {"sender": "outside", "event": event}
    workspace.records.dispatch.lifecycle.post(workspace.id, mail, "once")

    with pytest.raises(RunRefusedError, match="an event that was delivered is not answered yet"):
        workspace.runs.close(workspace.folder)

    assert workspace.open().state == "open"


def test_a_folder_whose_workspace_is_forgotten_says_so_in_a_sentence(
    workspace: StoredWorkspace, tmp_path: Path
) -> None:
    workspace.runs.close(workspace.folder)
    settle(workspace.world, workspace.id)
    settings = workspace.records.settings
    more: dict[str, Any] = {"prune_after_s": 0.001, "archive": tmp_path / "archive"}
    pruning = client_of(settings.store, settings.prefix, **more).dispatch
    partition = partition_of(workspace.id)
    # As if it had been closed long ago.
    world = workspace.world
    read(world.client, "ZADD", world.keys.ended_index(partition), 1, workspace.id)
    assert prune.run(sweeping(pruning), partition)["pruned"] == 1

    with pytest.raises(RunRefusedError, match="was closed and its records are deleted; its name"):
        open_workspace(workspace.records, workspace.folder, REASON)


# --- following events ----------------------------------------------------------------------------


@pytest.fixture
def opened(workspace: StoredWorkspace) -> Record:
    """Return a workspace in which a run has ended."""
    fail_run(workspace, start_plan(workspace, TIDY, "a" * 40))
    return workspace.open()


def test_to_follow_from_a_deleted_position_is_an_error(
    workspace: StoredWorkspace, opened: Record
) -> None:
    positions = [one.position for one in workspace.runs.events_after(opened)]
    assert [one.position for one in workspace.runs.events_after(opened, positions[0])] == positions[
        1:
    ]
    assert workspace.runs.events_after(opened, positions[-1]) == []
    key = workspace.world.keys.family_log(opened.id)
    read(workspace.world.client, "XTRIM", key, "MAXLEN", "=", 1)

    for gone in positions[:-1]:
        with pytest.raises(MissedError, match=f"what came after {gone} in {opened.id}"):
            workspace.runs.events_after(opened, gone)
    assert [one.position for one in workspace.runs.events_after(opened)] == positions[-1:]


@pytest.mark.parametrize(
    "wrong", ["", "now", "17", "17-", "-1-0", "+", "$", "1-0\n", "9" * 20 + "-0", "\u0661-\u0660"]
)
def test_a_position_that_cannot_be_one_is_refused(
    workspace: StoredWorkspace, opened: Record, wrong: str
) -> None:
    with pytest.raises(InvalidPayloadError, match="does not look like 17-0"):
        workspace.runs.events_after(opened, wrong)


def test_a_run_in_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text("codons:\n  - {codon: one, command: 'true'}\n")
    runs = Runs(client_of(f"redis://127.0.0.1:{free_port()}/0", "il"))

    with pytest.raises(RunRefusedError, match="/proc cannot be written"):
        runs.start(plan, Path("/proc"))
