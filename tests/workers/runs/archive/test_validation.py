"""Each kind of damage is done for real; it is named and explained, and mended without a guess."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest

from interlock.kernel.store.repairs import Repairs
from interlock.kernel.store.scripts import read
from interlock.workers.runs.archive import inventory as looking
from interlock.workers.runs.archive import repair as mending
from interlock.workers.runs.archive import validation
from interlock.workers.runs.archive.findings import Fault, Finding
from interlock.workers.runs.client import UnknownWorkspaceError
from tests.kernel.store.contents import contents
from tests.kernel.store.machines_runs import complete, settle
from tests.workers.runs.workspaces import COST, WATCHED, Scene

SPENT = COST + WATCHED


def only(scene: Scene) -> Finding:
    """Return the one thing that is wrong."""
    found = scene.validate()
    every = (*found.errors, *found.warnings)
    assert len(every) == 1, every
    return every[0]


def unchanged(scene: Scene) -> None:
    """See that to validate changes nothing, in the store or on the disk."""
    before, files = contents(scene.world), sorted(scene.folder.rglob("*"))
    scene.validate()
    assert contents(scene.world) == before
    assert sorted(scene.folder.rglob("*")) == files


def test_runs_that_nobody_damaged_are_valid_while_one_is_at_work_and_after(scene: Scene) -> None:
    first = scene.ended(2)
    assert scene.validate().valid, scene.validate()

    scene.codon(scene.begin(), upto="running")
    found = scene.validate()
    assert (found.valid, found.errors, found.warnings) == (True, (), ())
    assert scene.world.record(first).counters["tree.cost"] == COST * 3
    unchanged(scene)


def test_a_folder_in_which_no_run_began_is_told_apart_from_an_empty_one(scene: Scene) -> None:
    with pytest.raises(UnknownWorkspaceError):
        scene.runs.validate(scene.folder.parent)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("data", "{torn", "cannot be read"),
        ("state", "running", "the log leads to 'completed'"),
        ("version", "3", "the log leads to 7"),
        ("machine", "job", "its id is a codon's"),
        ("since", "5", "time of its state 5"),
    ],
)
def test_a_record_that_does_not_follow_from_its_log_is_corrupt_and_stays_as_it_is(
    scene: Scene, name: str, value: str, said: str
) -> None:
    codon = f"{scene.ended()}/1"
    scene.field(codon, name, value)
    unchanged(scene)

    named = [one for one in scene.validate().errors if one.where == codon]

    assert named[0].type is Fault.CORRUPTED_DATA
    assert said in named[0].message
    assert "import" in named[0].message
    before = contents(scene.world)
    assert not scene.validate(repair=True).repairs
    assert contents(scene.world) == before


def test_a_log_that_lost_its_beginning_is_corrupt(scene: Scene) -> None:
    run = scene.ended()
    read(scene.world.client, "XDEL", scene.world.keys.log(run), "1-0")

    finding = only(scene)

    assert (finding.type, finding.where) == (Fault.CORRUPTED_DATA, run)
    assert "does not begin with its birth" in finding.message


def test_a_corrupt_workspace_is_said_to_be_so_and_not_taken_for_a_new_one(scene: Scene) -> None:
    scene.ended()
    scene.field(scene.id, "state", "closed")
    assert only(scene).type is Fault.CORRUPTED_DATA

    scene.field(scene.id, "data", "{torn")
    finding = only(scene)
    assert (finding.type, finding.where) == (Fault.CORRUPTED_DATA, scene.id)

    scene.forget(scene.world.keys.record(scene.id))
    finding = only(scene)
    assert (finding.type, finding.where) == (Fault.CORRUPTED_DATA, scene.id)
    assert "is gone" in finding.message
    assert not scene.validate(repair=True).valid


def test_a_run_that_is_gone_is_missing_whatever_it_held(scene: Scene) -> None:
    scene.ended()
    second = scene.begin()
    scene.forget(scene.world.keys.record(second))

    found = scene.validate()

    assert [one.type for one in found.errors] == [Fault.MISSING_RUN] * 2
    assert [one.where for one in found.errors] == [second, scene.id]
    assert f"held for run {second}, which is not there" in found.errors[1].message


def test_a_workspace_that_is_held_by_a_run_that_is_gone_is_freed(scene: Scene) -> None:
    scene.ended()
    holds = scene.world.keys.holds(scene.id)
    read(scene.world.client, "HSET", holds, "run", f"{scene.id}/7", "codon", f"{scene.id}/1/1")
    assert scene.types() == ["invalid_codon", "missing_run"]
    unchanged(scene)

    found = scene.validate(repair=True)

    assert found.valid, found.errors
    assert len(found.repairs) == 2
    assert scene.world.views.holds(scene.id) == {}
    kinds = [note.kind for note in scene.world.notes(scene.id)]
    assert kinds.count("freed") == 2
    assert scene.begin().endswith("/2"), "the next one can begin"


def test_a_run_that_is_at_work_keeps_the_workspace_whoever_repairs(scene: Scene) -> None:
    run = scene.begin()
    scene.codon(run, upto="running")
    held = scene.world.views.holds(scene.id)
    assert set(held) == {"run", "codon"}

    assert scene.validate(repair=True).repairs == ()
    assert Repairs(scene.world.client, scene.world.keys).free(scene.id, "run", run) == "lives"
    assert Repairs(scene.world.client, scene.world.keys).free(scene.id, "run", "x") == "moved"

    assert scene.world.views.holds(scene.id) == held


def test_a_number_that_is_left_out_is_a_missing_run(scene: Scene) -> None:
    first = scene.ended()
    scene.ended()
    keys = scene.world.keys
    lost = (keys.record(first), keys.chronicle(first), keys.record(f"{first}/1"))
    scene.forget(*lost)
    for machine in ("run", "codon"):
        scene.forget(keys.state_index(first, machine, "completed"))

    found = scene.validate().errors

    assert (Fault.MISSING_RUN, first) in [(one.type, one.where) for one in found]
    assert not scene.validate(repair=True).valid


def test_codons_without_their_run_say_that_it_is_missing(scene: Scene) -> None:
    run = scene.ended()
    keys = scene.world.keys
    scene.forget(keys.record(run), keys.chronicle(run), keys.state_index(run, "run", "completed"))
    # Nothing names the run any more but its codon's id.
    assert [one.where for one in scene.validate().errors if one.type is Fault.MISSING_RUN] == [run]


def test_a_codon_that_is_gone_is_named(scene: Scene) -> None:
    run = scene.ended(2)
    scene.forget(scene.world.keys.record(f"{run}/1"))

    finding = only(scene)

    assert (finding.type, finding.where) == (Fault.INVALID_CODON, f"{run}/1")


def test_a_codon_whose_data_is_not_its_states_is_invalid(scene: Scene) -> None:
    codon = f"{scene.ended()}/1"
    data: dict[str, Any] = dict(scene.world.record(codon).data)
    del data["final_cost"]
    scene.field(codon, "data", json.dumps(data))

    named = {one.type: one.message for one in scene.validate().errors if one.where == codon}

    assert "final_cost: Field required" in named[Fault.INVALID_CODON]
    assert Fault.CORRUPTED_DATA in named


def test_two_codons_at_work_at_once_are_invalid(scene: Scene) -> None:
    first, holds = scene.begin(), scene.world.keys.holds(scene.id)
    scene.codon(first, upto="running")
    scene.forget(holds)
    second = scene.begin()
    scene.codon(second, upto="running")

    said = [one.message for one in scene.validate().errors if one.type is Fault.INVALID_CODON]

    assert any("2 codons are at work at once" in one for one in said)
    assert any(f"held for {second}/1" in one for one in said)


def test_a_codon_that_outlives_its_run_is_invalid_once_it_should_be_cleared(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = scene.begin()
    codon = scene.codon(run, upto="running")
    complete(scene.world, run)
    assert scene.validate().valid, "it is given time"

    monkeypatch.setattr(validation, "CLEARED_MS", -1)
    finding = only(scene)

    assert (finding.type, finding.where) == (Fault.INVALID_CODON, codon)
    assert "interlock up" in finding.message


def test_a_checkpoint_that_no_branch_leads_to_is_missing(scene: Scene) -> None:
    first, second = scene.ended(), scene.ended()
    gone = scene.world.record(f"{second}/1").data["completion_checkpoint"]
    initial = scene.world.record(second).data["initial_checkpoint"]
    scene.shadow.git.run("update-ref", "refs/heads/run-2", initial)
    assert scene.shadow.has(initial)

    finding = only(scene)

    assert (finding.type, finding.where) == (Fault.MISSING_CHECKPOINT, f"{second}/1")
    assert gone in finding.message
    assert first not in finding.message


def test_checkpoints_that_are_gone_or_cannot_be_read_are_no_empty_store(scene: Scene) -> None:
    scene.ended()
    (scene.shadow.store / "refs/heads/run-1").write_text("torn")
    assert only(scene).type is Fault.MISSING_CHECKPOINT

    shutil.rmtree(scene.shadow.store)
    finding = only(scene)
    assert finding.type is Fault.MISSING_CHECKPOINT
    assert "is no folder" in finding.message
    assert not scene.shadow.store.exists(), "to look for it did not make it"


@pytest.mark.parametrize(
    ("of", "name"), [("", "tree.cost"), ("/1", "tree.spent"), ("/1/1", "tree.cost")]
)
def test_a_sum_that_is_wrong_is_named_and_counted_again(scene: Scene, of: str, name: str) -> None:
    scene.ended()
    scene.counter(f"{scene.id}{of}", name, 7)
    unchanged(scene)
    right = {"tree.cost": COST, "tree.spent": SPENT}
    finding = only(scene)
    assert (finding.type, finding.where) == (Fault.COST_MISMATCH, f"{scene.id}{of}")
    assert f"{name} is 7 and should be {right[name]}" in finding.message

    found = scene.validate(repair=True)

    assert found.valid, found.errors
    for each in ("", "/1", "/1/1"):
        kept = scene.world.record(f"{scene.id}{each}").counters
        assert {each: kept[each] for each in right} == right
    note = scene.world.notes(scene.id)[-1]
    assert note.kind == "recounted"
    assert note.detail["was"][f"{scene.id}{of}"][name] == 7
    assert note.detail["now"][f"{scene.id}{of}"][name] == right[name]
    assert note.detail["actor"] == "tester"


def test_a_codons_own_cost_is_counted_again(scene: Scene) -> None:
    codon = f"{scene.ended()}/1"
    scene.forget(scene.world.keys.counters(codon))
    assert scene.types() == ["cost_mismatch"]

    assert scene.validate(repair=True).valid
    assert scene.world.record(codon).counters == {
        "cost": COST,
        "spent": SPENT,
        "tree.cost": COST,
        "tree.spent": SPENT,
    }


def test_what_is_committed_during_a_recount_is_not_lost(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = scene.begin()
    scene.counter(scene.id, "tree.cost", 7)
    look = looking.inventory

    def moved_after(*given: Any) -> looking.Inventory:
        found = look(*given)
        if not scene.world.views.births([f"{run}/1"]):
            scene.codon(run)
        return found

    monkeypatch.setattr(mending, "inventory", moved_after)

    found = scene.validate(repair=True)

    assert found.repairs == ()
    assert scene.world.record(scene.id).counters["tree.cost"] == COST + 7
    assert scene.validate(repair=True).valid
    assert scene.world.record(scene.id).counters["tree.cost"] == COST


def test_sums_are_not_counted_over_a_record_that_cannot_be_read(scene: Scene) -> None:
    run = scene.ended()
    scene.field(f"{run}/1", "data", "{torn")
    scene.counter(scene.id, "tree.cost", 7)

    found = scene.validate(repair=True)

    assert [one.type for one in found.errors] == [Fault.CORRUPTED_DATA]
    assert scene.world.record(scene.id).counters["tree.cost"] == 7


def test_what_a_run_noted_of_those_before_it_is_explained_and_stays_in_its_log(
    scene: Scene,
) -> None:
    scene.ended()
    scene.counter(scene.id, "tree.cost", 7)
    second = scene.begin()
    complete(scene.world, second)
    settle(scene.world, second)

    found = scene.validate(repair=True)

    assert [one.where for one in found.errors] == [second]
    assert found.errors[0].type is Fault.COST_MISMATCH
    assert "stays in its log" in found.errors[0].message
    assert scene.world.record(second).data["before"]["cost"] == 7


def test_folders_of_nobody_are_a_warning_and_are_moved_aside_whole(scene: Scene) -> None:
    run = scene.ended()
    work_folder = scene.home / "runs" / scene.id
    for place in ("1/0001", "1/0002", "9/0001"):
        (work_folder / place).mkdir(parents=True)
        (work_folder / place / "output.log").write_text(place)
    found = scene.validate()
    assert found.valid
    assert [one.type for one in found.warnings] == [Fault.ORPHANED_FOLDER] * 2
    assert all(str(work_folder) in one.message for one in found.warnings)

    repaired = scene.validate(repair=True)

    assert (repaired.valid, repaired.warnings) == (True, ())
    assert run.endswith("/1")
    assert sorted(one.name for one in work_folder.rglob("*")) == ["0001", "1", "output.log"]
    aside = scene.home / "runs" / ".orphaned" / scene.id
    assert (aside / "1/0002/output.log").read_text() == "1/0002"
    assert (aside / "9/0001/output.log").read_text() == "9/0001"

    (work_folder / "9").mkdir()
    assert scene.validate(repair=True).warnings == ()
    assert (aside / "9.2").is_dir(), "nothing that was moved before is replaced"


def test_the_folder_of_a_run_that_began_meanwhile_is_not_moved(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.ended()
    look, work_folder = looking.inventory, scene.home / "runs" / scene.id

    def begun_after(*given: Any) -> looking.Inventory:
        found = look(*given)
        scene.begin()
        (work_folder / "2").mkdir(parents=True)
        return found

    monkeypatch.setattr(mending, "inventory", begun_after)

    assert scene.validate(repair=True).repairs == ()
    assert (work_folder / "2").is_dir()
