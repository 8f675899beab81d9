"""Which checkpoints there are, and where a run goes on from, with records led by hand."""

from __future__ import annotations

import pytest

from interlock.kernel.store.commands import Warrant
from interlock.workers.runs.checkpoints import CheckpointError, before, checkpoints, going_on, named
from interlock.workers.runs.outcome import Ended
from interlock.workers.runs.sequence import Execution
from interlock.workers.runs.start import Begin, begin
from tests.kernel.store.machines_runs import CONDUCTOR, HOLDER, fail, settle
from tests.workers.runs.workspaces import CAUSE, PLAN, Scene

UNKNOWN = {"type": "unknown", "retriable": True, "message": "no"}


def executed(scene: Scene, run: str, number: int, name: str, end: str, sha: str) -> None:
    """Execute a codon to its end, with a checkpoint."""
    of = f"{run}/{number}"
    scene.world.create(of, {"codon_id": name}, machine="codon", initial_lease=HOLDER)
    scene.move(of, "preparing", "starting")
    scene.move(of, "starting", "initializing", pid=7, log_path="x.log")
    scene.move(of, "initializing", "running", session_id="s")
    match end:
        case "completed":
            scene.move(of, "running", end, checkpoint_sha=sha)
        case "skipped":
            scene.move(of, "running", end, skipped_during="running", checkpoint_sha=sha)
        case _:
            why = {"exit_code": 1, "failure_reason": UNKNOWN, "failed_during": "running"}
            ignored = end == "ignored"
            scene.move(of, "running", "failed", **why, ignored=ignored, checkpoint_sha=sha)


def led(scene: Scene, *ends: tuple[str, str]) -> str:
    """Lead a run through codons; the first checkpoint is what it began with."""
    run = scene.begin()
    for number, (name, end) in enumerate(ends, start=1):
        executed(scene, run, number, name, end, f"{number:040x}")
    return run


def test_a_run_that_failed_at_its_last_attempt_goes_on_from_before_the_first(scene: Scene) -> None:
    run = led(scene, ("good", "completed"), ("bad", "failed"), ("bad", "failed"))

    found = going_on(scene.dispatch, scene.dispatch.views.record(run))

    assert found is not None
    assert (found.sha, found.after) == (f"{1:040x}", "good")
    assert [one.codon_id for one in found.done] == ["good"]


def test_a_run_in_which_nothing_counts_goes_on_from_its_beginning(scene: Scene) -> None:
    run = led(scene, ("bad", "failed"))

    found = going_on(scene.dispatch, scene.dispatch.views.record(run))

    assert found is not None
    assert (found.type, found.after, found.done) == ("initial", "", ())


@pytest.mark.parametrize("end", ["skipped", "ignored"])
def test_what_a_run_went_past_counts_as_done(scene: Scene, end: str) -> None:
    run = led(scene, ("good", "completed"), ("other", end), ("bad", "failed"))

    found = going_on(scene.dispatch, scene.dispatch.views.record(run))

    assert found is not None
    assert (found.sha, found.after) == (f"{2:040x}", "other")


def test_an_attempt_that_failed_before_it_succeeded_counts_for_nothing(scene: Scene) -> None:
    run = led(scene, ("bad", "failed"), ("bad", "completed"))

    found = going_on(scene.dispatch, scene.dispatch.views.record(run))

    assert found is not None
    assert [(one.codon_id, one.record) for one in found.done] == [("bad", f"{run}/2")]


def test_a_codon_that_was_lost_before_any_checkpoint_can_be_done_anew(scene: Scene) -> None:
    run = led(scene, ("good", "completed"))
    scene.world.create(f"{run}/2", {"codon_id": "bad"}, machine="codon", initial_lease=HOLDER)
    fail(scene.world, run)
    scene.world.fire(f"{run}/2", "run_ended", {}, warrant=Warrant.party("clearance"))
    assert "error_checkpoint" not in scene.world.record(f"{run}/2").data

    found = before(scene.dispatch, scene.dispatch.views.record(run), "bad")

    assert (found.sha, found.after) == (f"{1:040x}", "good")


def test_a_codon_at_which_its_run_ended_can_be_done_anew(scene: Scene) -> None:
    run = led(scene, ("good", "completed"))
    scene.world.fire(run, "fail", {"reason": "it has no session", "codon": "next"})
    record = scene.dispatch.views.record(run)

    assert before(scene.dispatch, record, "next").sha == f"{1:040x}"
    with pytest.raises(CheckpointError, match="has not executed later"):
        before(scene.dispatch, record, "later")


def gone_back(scene: Scene, rescued: str = "e" * 40) -> tuple[str, str]:
    """Lead a run to its end, and another that goes back if it rescues anything; return both."""
    first = led(scene, ("clean", "completed"))
    fail(scene.world, first)
    settle(scene.world, first)
    done = Execution(codon_id="clean", iteration=None, status=Ended.COMPLETED, record=f"{first}/1")
    what = Begin(PLAN, {"kind": "fresh"}, (done,))
    second = begin(scene.dispatch, scene.open(), what, CAUSE).id
    if rescued:
        shas = {"sha": f"{1:040x}", "rescued": rescued}
        scene.world.fire(second, "initial_checkpoint_set", shas, warrant=CONDUCTOR)
    return first, second


def test_what_was_rescued_is_a_checkpoint_at_which_counts_what_counted_before(
    scene: Scene,
) -> None:
    first, _ = gone_back(scene)

    found = named(scene.dispatch, scene.id, "eeee")

    assert [one.type for one in checkpoints(scene.dispatch, scene.id)] == [
        "initial",
        "completed",
        "recovery",
        "initial",
    ]
    assert (found.type, found.run, found.after) == ("recovery", first, "clean")
    assert [one.record for one in found.done] == [f"{first}/1"]


def test_what_a_run_that_never_began_left_was_left_by_the_one_before(scene: Scene) -> None:
    first, second = gone_back(scene, rescued="")
    fail(scene.world, second)
    settle(scene.world, second)
    third = begin(scene.dispatch, scene.open(), Begin(PLAN, {"kind": "fresh"}), CAUSE).id
    shas = {"sha": "f" * 40, "rescued": "e" * 40}
    scene.world.fire(third, "initial_checkpoint_set", shas, warrant=CONDUCTOR)

    found = named(scene.dispatch, scene.id, "eeee")

    assert (found.run, [one.record for one in found.done]) == (first, [f"{first}/1"])


def test_where_a_run_goes_on_is_read_from_no_other_run(scene: Scene) -> None:
    first, second = gone_back(scene)
    scene.field(first, "data", "broken")

    found = going_on(scene.dispatch, scene.dispatch.views.record(second))

    assert found is not None
    assert (found.type, found.run, found.after) == ("initial", second, "clean")


def test_to_do_a_codon_anew_begins_with_what_was_before_its_first_attempt(scene: Scene) -> None:
    run = led(scene, ("good", "completed"), ("bad", "failed"), ("bad", "completed"))
    record = scene.dispatch.views.record(run)

    assert before(scene.dispatch, record, "bad").sha == f"{1:040x}"
    assert before(scene.dispatch, record, "good").type == "initial"
    with pytest.raises(CheckpointError, match="has not executed worse"):
        before(scene.dispatch, record, "worse")


def test_checkpoints_are_named_by_id_by_codon_and_by_what_they_were(scene: Scene) -> None:
    led(scene, ("good", "completed"), ("bad", "failed"))

    def found(name: str) -> str:
        return named(scene.dispatch, scene.id, name).sha

    first = checkpoints(scene.dispatch, scene.id)[0].sha
    assert found("initial") == first
    assert found("good:completed") == found("last-success") == f"{1:040x}"
    assert found("bad:error") == f"{2:040x}"
    assert found(first[:12].upper()) == first
    for name, why in (
        ("0000", "may be 0000000.* or 0000000"),
        ("000", "too short"),
        ("feed", "there is no checkpoint feed"),
        ("good:error", "there are: bad:error, good:completed"),
    ):
        with pytest.raises(CheckpointError, match=why):
            named(scene.dispatch, scene.id, name)
