"""A run whose plan or recorded state is invalid is refused, or ended, with what is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from interlock.kernel.errors import StoreDownError
from interlock.kernel.record import Record
from interlock.kernel.store.inboxes import Mail
from interlock.kernel.store.scripts import read
from interlock.systems.runs.admission import InvalidStateError
from interlock.systems.runs.client import Runs
from interlock.systems.runs.effects.events import apply_event
from interlock.systems.runs.supervisor import RunSupervisor
from interlock.workers.supervision.launch import LaunchSpec
from tests.kernel.store.machines_runs import fail, settle
from tests.systems.runs.workspaces import PLAN, StoredWorkspace

STARTED = {"run_id": "2", "run_folder": "/data", "branch": "run-2"}
# The ways to begin a run in a folder where one has ended.
BEGINNINGS: Mapping[str, Callable[[Runs, Path], object]] = {
    "start": lambda runs, folder: runs.start(folder.parent / "plan.yaml", folder),
    "continue": lambda runs, folder: runs.resume(folder),
    "redo": lambda runs, folder: runs.redo(folder, "clean"),
    "rollback": lambda runs, folder: runs.rollback(folder, "clean:completed"),
}


def tear_codon(workspace: StoredWorkspace) -> str:
    workspace.write_field(f"{workspace.id}/1/1", "data", "{torn")
    return f"corrupted_data at {workspace.id}/1/1: it cannot be read"


def tear_workspace(workspace: StoredWorkspace) -> str:
    workspace.write_field(workspace.id, "data", "{torn")
    return f"corrupted_data at {workspace.id}: it cannot be read"


def lose_field(workspace: StoredWorkspace) -> str:
    record = workspace.world.keys.record(workspace.id)
    read(workspace.world.client, "HDEL", record, "entered")
    return f"corrupted_data at {workspace.id}: it cannot be read"


def change_run(workspace: StoredWorkspace) -> str:
    workspace.write_field(f"{workspace.id}/1", "version", "9")
    return f"corrupted_data at {workspace.id}/1: the record has version 9"


def lose_codon(workspace: StoredWorkspace) -> str:
    workspace.delete_keys(workspace.world.keys.record(f"{workspace.id}/1/1"))
    return f"invalid_codon at {workspace.id}/1/1: it is missing, but a later one exists"


def hold_for_missing_run(workspace: StoredWorkspace) -> str:
    holds = workspace.world.keys.holds(workspace.id)
    read(workspace.world.client, "HSET", holds, "run", f"{workspace.id}/7")
    return f"missing_run at {workspace.id}/7"


DAMAGES = (tear_codon, tear_workspace, lose_field, change_run, lose_codon, hold_for_missing_run)


def failed_run(workspace: StoredWorkspace) -> str:
    """Return a run that failed after two completed codons, none of whose effects is open."""
    run = workspace.start_run()
    for number in (1, 2):
        settle(workspace.world, workspace.codon(run, number))
    fail(workspace.world, run)
    settle(workspace.world, run)
    (workspace.folder.parent / "plan.yaml").write_text(
        "plan: tidy\ncodons:\n  - {codon: clean, command: 'true'}\n"
    )
    return run


@pytest.mark.parametrize("damage", DAMAGES)
def test_no_run_begins_where_the_recorded_state_is_invalid(
    workspace: StoredWorkspace, damage: Callable[[StoredWorkspace], str]
) -> None:
    failed_run(workspace)
    opened = workspace.open()
    problem = damage(workspace)
    before = workspace.world.dump()

    for begin in BEGINNINGS.values():
        with pytest.raises(InvalidStateError, match=re.escape(problem)):
            begin(workspace.runs, workspace.folder)
    mail = Mail("17-0", 17, {"sender": "x", "event": {"type": "RunStarted", "data": STARTED}})
    refused = apply_event(workspace.records.named("events"), opened, mail)

    assert (refused.applied, refused.error) == (False, "InvalidStateError")
    assert problem in refused.why
    assert "`interlock run validate` lists all" in refused.why
    assert workspace.world.dump() == before, "nothing was repaired"


@pytest.mark.parametrize("name", BEGINNINGS)
def test_a_run_begins_whatever_is_wrong_with_what_it_does_not_need(
    workspace: StoredWorkspace, name: str
) -> None:
    failed_run(workspace)
    failed_run(workspace)
    change_run(workspace)
    workspace.write_counter(workspace.id, "tree.cost", 7)
    workspace.checkpoint_store.git.run("update-ref", "-d", "refs/heads/run-1")
    assert workspace.types() == ["corrupted_data", "missing_checkpoint"]

    BEGINNINGS[name](workspace.runs, workspace.folder)

    assert workspace.runs.last(workspace.open()).id == f"{workspace.id}/3"


def test_a_store_that_does_not_answer_is_no_invalid_state(
    workspace: StoredWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed_run(workspace)

    def away(record_id: str) -> Record:
        raise StoreDownError(f"no answer about {record_id}")

    monkeypatch.setattr(workspace.records.views, "history", away)

    with pytest.raises(StoreDownError):
        workspace.validate()


def supervise(workspace: StoredWorkspace, **fields: Any) -> Record:
    """Create a run as a program without a client does, supervise it, and return it at its end."""
    initial = {"plan": PLAN, "folder": str(workspace.folder), "host": "", **fields}
    run = f"{workspace.id}/1"
    workspace.world.create(run, initial, machine="run")
    (entry,) = workspace.world.record(run).entries
    lease = workspace.world.claim_key(entry.key(run))
    spec = LaunchSpec(key=lease.key, token=lease.token, work_folder=str(workspace.home))
    RunSupervisor(spec, workspace.records.named("launch")).run()
    return workspace.world.record(run)


def plan_with(**fields: Any) -> dict[str, Any]:
    """Return a stored plan whose only codon has these fields, too."""
    return {**PLAN, "steps": [{**PLAN["steps"][0], **fields}]}


def source(workspace: StoredWorkspace, sha: str) -> dict[str, Any]:
    where = {"run_id": f"{workspace.id}/1", "checkpoint_sha": sha}
    return {"kind": "continuation", "source": where, "reason": "continue"}


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        (
            {"plan": {}},
            "the plan is invalid: name: this field is missing, add it; steps: this field is",
        ),
        ({"plan": {**PLAN, "steps": []}}, "the plan is invalid: steps: Tuple should have at least"),
        ({"plan": plan_with(sentinels=["eye"])}, "the plan is invalid: it has no sentinel eye"),
        (
            {"plan": {**PLAN, "steps": PLAN["steps"] * 2}},
            "the plan is invalid: several codons or loops are named clean",
        ),
        ({"done": [{"codon": "clean"}]}, "an execution that counts is invalid: "),
        ({"done": [{"codon_id": "dry", "iteration": None, "status": "completed"}]}, "no codon for"),
    ],
)
def test_a_run_with_an_invalid_plan_ends_with_what_is_wrong(
    workspace: StoredWorkspace, fields: dict[str, Any], problem: str
) -> None:
    run = supervise(workspace, **fields)

    assert run.state == "failed"
    assert problem in run.data["ended"]["reason"]


def test_a_run_from_a_checkpoint_that_is_gone_ends_with_its_id(workspace: StoredWorkspace) -> None:
    run = supervise(workspace, starting=source(workspace, "b" * 40))

    assert run.state == "failed"
    assert f"it is to begin with checkpoint {'b' * 40}, which" in run.data["ended"]["reason"]


def test_a_run_beside_a_damaged_checkpoint_of_another_ends_with_what_to_do(
    workspace: StoredWorkspace,
) -> None:
    sha = workspace.shas["run-2"][0]
    (workspace.checkpoint_store.store / "objects" / sha[:2] / sha[2:]).unlink()

    run = supervise(workspace, starting={"kind": "fresh"})

    assert run.state == "failed"
    assert "cannot be read" in run.data["ended"]["reason"]
    assert "put the folder back from a copy" in run.data["ended"]["reason"]


def test_a_run_in_an_invalid_workspace_ends_with_the_finding(workspace: StoredWorkspace) -> None:
    workspace.write_field(workspace.id, "data", "{torn")

    run = supervise(workspace)

    assert run.state == "failed"
    assert f"corrupted_data at {workspace.id}: " in run.data["ended"]["reason"]
