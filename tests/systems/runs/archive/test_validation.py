"""Each kind of damage becomes a finding; repair corrects only what needs no guess."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest

from interlock.kernel.store.repairs import Repairs
from interlock.kernel.store.scripts import read
from interlock.systems.runs.admission import InvalidStateError
from interlock.systems.runs.archive import inventory as inventory_module
from interlock.systems.runs.archive import repair as repair_module
from interlock.systems.runs.archive import validation
from interlock.systems.runs.archive.findings import Fault, Finding
from interlock.systems.runs.start import UnknownWorkspaceError
from tests.kernel.samples import RUN_BIRTH
from tests.kernel.store.contents import contents
from tests.kernel.store.machines_runs import complete, settle
from tests.systems.runs.workspaces import COST, SENTINEL_COST, StoredWorkspace

SPENT = COST + SENTINEL_COST


def only(workspace: StoredWorkspace) -> Finding:
    """Return the only finding."""
    found = workspace.validate()
    every = (*found.errors, *found.warnings)
    assert len(every) == 1, every
    return every[0]


def check_unchanged(workspace: StoredWorkspace) -> None:
    """Check that a validation changes nothing, in the store or on the disk."""
    before, files = contents(workspace.world), sorted(workspace.folder.rglob("*"))
    workspace.validate()
    assert contents(workspace.world) == before
    assert sorted(workspace.folder.rglob("*")) == files


def test_runs_that_nobody_damaged_are_valid_while_one_is_at_work_and_after(
    workspace: StoredWorkspace,
) -> None:
    first = workspace.completed_run(2)
    assert workspace.validate().valid, workspace.validate()

    workspace.codon(workspace.start_run(), upto="running")
    found = workspace.validate()
    assert (found.valid, found.errors, found.warnings) == (True, (), ())
    assert workspace.world.record(first).counters["tree.cost"] == COST * 3
    check_unchanged(workspace)


def test_a_folder_in_which_no_run_began_is_told_apart_from_an_empty_one(
    workspace: StoredWorkspace,
) -> None:
    with pytest.raises(UnknownWorkspaceError):
        workspace.runs.validate(workspace.folder.parent)


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("data", "{torn", "cannot be read"),
        ("state", "running", "the log leads to 'completed'"),
        ("version", "3", "the log leads to 7"),
        ("machine", "job", "its id is that of a codon"),
        ("since", "5", "time of its state 5"),
    ],
)
def test_a_record_that_does_not_follow_from_its_log_is_corrupt_and_stays_as_it_is(
    workspace: StoredWorkspace, name: str, value: str, problem: str
) -> None:
    codon = f"{workspace.completed_run()}/1"
    workspace.write_field(codon, name, value)
    check_unchanged(workspace)

    named = [one for one in workspace.validate().errors if one.where == codon]

    assert named[0].type is Fault.CORRUPTED_DATA
    assert problem in named[0].message
    assert "import" in named[0].message
    before = contents(workspace.world)
    assert not workspace.validate(repair=True).repairs
    assert contents(workspace.world) == before


def test_a_log_that_lost_its_beginning_is_corrupt(workspace: StoredWorkspace) -> None:
    run = workspace.completed_run()
    read(workspace.world.client, "XDEL", workspace.world.keys.log(run), "1-0")

    finding = only(workspace)

    assert (finding.type, finding.where) == (Fault.CORRUPTED_DATA, run)
    assert "does not begin with its creation" in finding.message


def test_a_corrupt_workspace_is_said_to_be_so_and_not_taken_for_a_new_one(
    workspace: StoredWorkspace,
) -> None:
    workspace.completed_run()
    workspace.write_field(workspace.id, "state", "closed")
    assert only(workspace).type is Fault.CORRUPTED_DATA

    workspace.write_field(workspace.id, "data", "{torn")
    finding = only(workspace)
    assert (finding.type, finding.where) == (Fault.CORRUPTED_DATA, workspace.id)

    workspace.delete_keys(workspace.world.keys.record(workspace.id))
    finding = only(workspace)
    assert (finding.type, finding.where) == (Fault.CORRUPTED_DATA, workspace.id)
    assert "is gone" in finding.message
    assert not workspace.validate(repair=True).valid


def test_a_run_that_is_gone_is_missing_whatever_it_held(workspace: StoredWorkspace) -> None:
    workspace.completed_run()
    second = workspace.start_run()
    workspace.delete_keys(workspace.world.keys.record(second))

    found = workspace.validate()

    assert [one.type for one in found.errors] == [Fault.MISSING_RUN] * 2
    assert [one.where for one in found.errors] == [second, workspace.id]
    assert f"held for run {second}, which is missing" in found.errors[1].message


def test_a_workspace_that_is_held_by_a_run_that_is_gone_is_freed(
    workspace: StoredWorkspace,
) -> None:
    workspace.completed_run()
    holds = workspace.world.keys.holds(workspace.id)
    read(
        workspace.world.client,
        "HSET",
        holds,
        "run",
        f"{workspace.id}/7",
        "codon",
        f"{workspace.id}/1/1",
    )
    assert workspace.types() == ["invalid_codon", "missing_run"]
    check_unchanged(workspace)

    found = workspace.validate(repair=True)

    assert found.valid, found.errors
    assert len(found.repairs) == 2
    assert workspace.world.views.holds(workspace.id) == {}
    kinds = [note.kind for note in workspace.world.notes(workspace.id)]
    assert kinds.count("freed") == 2
    assert workspace.start_run().endswith("/2"), "the next run can start"


def test_a_run_that_is_at_work_keeps_the_workspace_whoever_repairs(
    workspace: StoredWorkspace,
) -> None:
    run = workspace.start_run()
    workspace.codon(run, upto="running")
    held = workspace.world.views.holds(workspace.id)
    assert set(held) == {"run", "codon"}

    assert workspace.validate(repair=True).repairs == ()
    assert (
        Repairs(workspace.world.client, workspace.world.keys).free(workspace.id, "run", run)
        == "lives"
    )
    assert (
        Repairs(workspace.world.client, workspace.world.keys).free(workspace.id, "run", "x")
        == "moved"
    )

    assert workspace.world.views.holds(workspace.id) == held


def test_a_number_that_is_left_out_is_a_missing_run(workspace: StoredWorkspace) -> None:
    first = workspace.completed_run()
    workspace.completed_run()
    keys = workspace.world.keys
    lost = (keys.record(first), keys.family_log(first), keys.record(f"{first}/1"))
    workspace.delete_keys(*lost)
    for machine in ("run", "codon"):
        workspace.delete_keys(keys.state_index(first, machine, "completed"))

    found = workspace.validate().errors

    assert (Fault.MISSING_RUN, first) in [(one.type, one.where) for one in found]
    assert not workspace.validate(repair=True).valid


def test_codons_without_their_run_say_that_it_is_missing(workspace: StoredWorkspace) -> None:
    run = workspace.completed_run()
    keys = workspace.world.keys
    workspace.delete_keys(
        keys.record(run), keys.family_log(run), keys.state_index(run, "run", "completed")
    )
    # Only the id of its codon leads to the run now.
    assert [one.where for one in workspace.validate().errors if one.type is Fault.MISSING_RUN] == [
        run
    ]


def test_a_codon_that_is_gone_is_named(workspace: StoredWorkspace) -> None:
    run = workspace.completed_run(2)
    workspace.delete_keys(workspace.world.keys.record(f"{run}/1"))

    finding = only(workspace)

    assert (finding.type, finding.where) == (Fault.INVALID_CODON, f"{run}/1")


def test_a_codon_whose_data_is_not_its_states_is_invalid(workspace: StoredWorkspace) -> None:
    codon = f"{workspace.completed_run()}/1"
    data: dict[str, Any] = dict(workspace.world.record(codon).data)
    del data["final_cost"]
    workspace.write_field(codon, "data", json.dumps(data))

    named = {one.type: one.message for one in workspace.validate().errors if one.where == codon}

    assert "final_cost: this field is missing, add it" in named[Fault.INVALID_CODON]
    assert Fault.CORRUPTED_DATA in named


def test_two_codons_at_work_at_once_are_invalid(workspace: StoredWorkspace) -> None:
    first, holds = workspace.start_run(), workspace.world.keys.holds(workspace.id)
    workspace.codon(first, upto="running")
    workspace.delete_keys(holds)
    with pytest.raises(InvalidStateError, match="but the workspace is held for none"):
        workspace.start_run()
    second = f"{workspace.id}/2"
    workspace.world.create(second, RUN_BIRTH, machine="run")
    workspace.codon(second, upto="running")

    messages = [
        one.message for one in workspace.validate().errors if one.type is Fault.INVALID_CODON
    ]

    assert any("2 codons are running at once" in one for one in messages)
    assert any(f"held for {second}/1" in one for one in messages)


def test_a_codon_that_outlives_its_run_is_invalid_once_it_should_be_cleared(
    workspace: StoredWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = workspace.start_run()
    codon = workspace.codon(run, upto="running")
    complete(workspace.world, run)
    monkeypatch.setattr(validation, "CLEANUP_MS", 600_000)
    assert workspace.validate().valid, "the codon has time to end"

    monkeypatch.setattr(validation, "CLEANUP_MS", -1)
    finding = only(workspace)

    assert (finding.type, finding.where) == (Fault.INVALID_CODON, codon)
    assert "interlock up" in finding.message


def test_a_checkpoint_that_no_branch_leads_to_is_missing(workspace: StoredWorkspace) -> None:
    first, second = workspace.completed_run(), workspace.completed_run()
    gone = workspace.world.record(f"{second}/1").data["completion_checkpoint"]
    initial = workspace.world.record(second).data["initial_checkpoint"]
    workspace.checkpoint_store.git.run("update-ref", "refs/heads/run-2", initial)
    assert not workspace.checkpoint_store.missing([initial])

    finding = only(workspace)

    assert (finding.type, finding.where) == (Fault.MISSING_CHECKPOINT, f"{second}/1")
    assert gone in finding.message
    assert first not in finding.message


def test_checkpoints_that_are_gone_or_cannot_be_read_are_no_empty_store(
    workspace: StoredWorkspace,
) -> None:
    workspace.completed_run()
    (workspace.checkpoint_store.store / "refs/heads/run-1").write_text("torn")
    assert only(workspace).type is Fault.MISSING_CHECKPOINT

    shutil.rmtree(workspace.checkpoint_store.store)
    finding = only(workspace)
    assert finding.type is Fault.MISSING_CHECKPOINT
    assert "is not a folder" in finding.message
    assert not workspace.checkpoint_store.store.exists(), "validation did not create it"


@pytest.mark.parametrize(
    ("id_end", "name"), [("", "tree.cost"), ("/1", "tree.spent"), ("/1/1", "tree.cost")]
)
def test_a_sum_that_is_wrong_is_named_and_counted_again(
    workspace: StoredWorkspace, id_end: str, name: str
) -> None:
    workspace.completed_run()
    workspace.write_counter(f"{workspace.id}{id_end}", name, 7)
    check_unchanged(workspace)
    right = {"tree.cost": COST, "tree.spent": SPENT}
    finding = only(workspace)
    assert (finding.type, finding.where) == (Fault.COST_MISMATCH, f"{workspace.id}{id_end}")
    assert f"{name} is 7 and should be {right[name]}" in finding.message

    found = workspace.validate(repair=True)

    assert found.valid, found.errors
    for each in ("", "/1", "/1/1"):
        kept = workspace.world.record(f"{workspace.id}{each}").counters
        assert {each: kept[each] for each in right} == right
    note = workspace.world.notes(workspace.id)[-1]
    assert note.kind == "recounted"
    assert note.detail["was"][f"{workspace.id}{id_end}"][name] == 7
    assert note.detail["now"][f"{workspace.id}{id_end}"][name] == right[name]
    assert note.detail["actor"] == "tester"


def test_a_codons_own_cost_is_counted_again(workspace: StoredWorkspace) -> None:
    codon = f"{workspace.completed_run()}/1"
    workspace.delete_keys(workspace.world.keys.counters(codon))
    assert workspace.types() == ["cost_mismatch"]

    assert workspace.validate(repair=True).valid
    assert workspace.world.record(codon).counters == {
        "cost": COST,
        "spent": SPENT,
        "tree.cost": COST,
        "tree.spent": SPENT,
    }


def test_what_is_committed_during_a_recount_is_not_lost(
    workspace: StoredWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = workspace.start_run()
    workspace.write_counter(workspace.id, "tree.cost", 7)
    read_inventory = inventory_module.inventory

    def commit_after(*arguments: Any) -> inventory_module.Inventory:
        found = read_inventory(*arguments)
        if not workspace.world.views.creation_digests([f"{run}/1"]):
            workspace.codon(run)
        return found

    monkeypatch.setattr(repair_module, "inventory", commit_after)

    found = workspace.validate(repair=True)

    assert found.repairs == ()
    assert workspace.world.record(workspace.id).counters["tree.cost"] == COST + 7
    assert workspace.validate(repair=True).valid
    assert workspace.world.record(workspace.id).counters["tree.cost"] == COST


def test_sums_are_not_counted_over_a_record_that_cannot_be_read(workspace: StoredWorkspace) -> None:
    run = workspace.completed_run()
    workspace.write_field(f"{run}/1", "data", "{torn")
    workspace.write_counter(workspace.id, "tree.cost", 7)

    found = workspace.validate(repair=True)

    assert [one.type for one in found.errors] == [Fault.CORRUPTED_DATA]
    assert workspace.world.record(workspace.id).counters["tree.cost"] == 7


def test_what_a_run_noted_of_those_before_it_is_explained_and_stays_in_its_log(
    workspace: StoredWorkspace,
) -> None:
    workspace.completed_run()
    workspace.write_counter(workspace.id, "tree.cost", 7)
    second = workspace.start_run()
    complete(workspace.world, second)
    settle(workspace.world, second)

    found = workspace.validate(repair=True)

    assert [one.where for one in found.errors] == [second]
    assert found.errors[0].type is Fault.COST_MISMATCH
    assert "its log cannot be corrected" in found.errors[0].message
    assert workspace.world.record(second).data["before"]["cost"] == 7


def test_folders_of_nobody_are_a_warning_and_are_moved_aside_whole(
    workspace: StoredWorkspace,
) -> None:
    run = workspace.completed_run()
    work_folder = workspace.home / "runs" / workspace.id
    for name in ("1/0001", "1/0002", "9/0001"):
        (work_folder / name).mkdir(parents=True)
        (work_folder / name / "output.log").write_text(name)
    found = workspace.validate()
    assert found.valid
    assert [one.type for one in found.warnings] == [Fault.ORPHANED_FOLDER] * 2
    assert all(str(work_folder) in one.message for one in found.warnings)

    repaired = workspace.validate(repair=True)

    assert (repaired.valid, repaired.warnings) == (True, ())
    assert run.endswith("/1")
    assert sorted(one.name for one in work_folder.rglob("*")) == ["0001", "1", "output.log"]
    orphaned = workspace.home / "runs" / ".orphaned" / workspace.id
    assert (orphaned / "1/0002/output.log").read_text() == "1/0002"
    assert (orphaned / "9/0001/output.log").read_text() == "9/0001"

    (work_folder / "9").mkdir()
    assert workspace.validate(repair=True).warnings == ()
    assert (orphaned / "9.2").is_dir(), "a folder that was moved before is not replaced"


def test_the_folder_of_a_run_that_began_meanwhile_is_not_moved(
    workspace: StoredWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace.completed_run()
    read_inventory, work_folder = inventory_module.inventory, workspace.home / "runs" / workspace.id

    def start_after(*arguments: Any) -> inventory_module.Inventory:
        found = read_inventory(*arguments)
        workspace.start_run()
        (work_folder / "2").mkdir(parents=True)
        return found

    monkeypatch.setattr(repair_module, "inventory", start_after)

    assert workspace.validate(repair=True).repairs == ()
    assert (work_folder / "2").is_dir()
