"""Each event that is told is answered, whatever it names, and however often it is read."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.kernel.store.inboxes import Mail
from interlock.workers.runs.effects.events import Answer, apply
from interlock.workers.runs.start import newest
from tests.kernel.samples import RUN_BIRTH
from tests.kernel.store.machines_runs import fail, settle
from tests.workers.runs.workspaces import Scene


def told(kind: str, *, mail: str = "17-0", **data: Any) -> Mail:
    """Return an event as it lies in an inbox."""
    return Mail(mail, 17, {"sender": "outside", "event": {"type": kind, "data": data}})


def applied(scene: Scene, mail: Mail) -> Answer:
    return apply(scene.dispatch, scene.open(), mail)


def run_started(scene: Scene, source: str, *, mail: str = "17-0") -> Mail:
    """Return the wish for a run that goes on from another one."""
    where = {"run_id": source, "checkpoint_sha": "a" * 40}
    starting = {"kind": "continuation", "source": where, "reason": "continue"}
    folder = {"run_folder": str(scene.folder), "branch": "run-2"}
    return told("RunStarted", mail=mail, run_id="2", starting_conditions=starting, **folder)


@pytest.fixture
def run(scene: Scene) -> str:
    """Return a run that has ended, with a codon."""
    run = scene.begin()
    scene.codon(run)
    fail(scene.world, run)
    settle(scene.world, run)
    return run


def test_to_go_on_from_what_is_no_run_of_the_workspace_is_refused_and_what_follows_applied(
    scene: Scene, run: str
) -> None:
    scene.world.create("other", {"folder": "/other", "host": "here"}, machine="workspace")
    scene.world.create("other/1", RUN_BIRTH, machine="run")

    for source in ("1/1", f"{run}/1", "99", "other/1", scene.id, "no id !"):
        refused = applied(scene, run_started(scene, source))

        assert (refused.applied, refused.error) == (False, "RunRefusedError")
        assert refused.why == f"there is no run {source} of {scene.id}"
    assert newest(scene.dispatch, scene.id) == 1
    assert applied(scene, run_started(scene, "1", mail="18-0")).record == f"{scene.id}/2"


def test_an_event_about_what_is_not_there_is_refused(scene: Scene, run: str) -> None:
    for about, error in (
        ({"run_id": run, "codon_id": "other"}, "UnknownCodonError"),
        ({"run_id": "99", "codon_id": "clean"}, "RunRefusedError"),
        ({"run_id": f"{run}/1", "codon_id": "clean"}, "RunRefusedError"),
    ):
        assert applied(scene, told("CostsUpdated", cost=1, **about)).error == error


def test_a_transition_that_was_applied_and_not_answered_is_answered_as_applied(
    scene: Scene,
) -> None:
    run = scene.begin()
    codon = scene.codon(run, upto="running")
    moved: dict[str, Any] = {"from": "running", "to": "completing_sentinels"}
    mail = told("CodonTransitioned", run_id=run, codon_id="clean", **moved)

    first, again = applied(scene, mail), applied(scene, mail)

    assert first.applied
    assert again == first
    assert scene.world.record(codon).version == first.version
    told_anew = told("CodonTransitioned", mail="18-0", run_id=run, codon_id="clean", **moved)
    assert applied(scene, told_anew).error == "InvalidTransitionError"


def test_a_cost_that_was_applied_and_not_answered_counts_once_though_its_codon_has_ended(
    scene: Scene,
) -> None:
    run = scene.begin()
    codon = scene.codon(run, cost=500, upto="running")
    mail = told("CostsIncremented", run_id=run, codon_id="clean", cost_delta=7)
    assert applied(scene, mail).applied
    done = {"checkpoint_sha": "b" * 40, "result_message_received": True}
    scene.move(codon, "running", "completed", **done)

    again = applied(scene, mail)

    assert again.applied
    assert scene.world.record(codon).data["final_cost"] == 507


def test_a_run_that_was_begun_and_not_answered_begins_once(scene: Scene, run: str) -> None:
    mail = run_started(scene, run)

    first, again = applied(scene, mail), applied(scene, mail)

    assert (first.record, again.record) == (f"{scene.id}/2", f"{scene.id}/2")
    assert again.applied
    assert newest(scene.dispatch, scene.id) == 2
