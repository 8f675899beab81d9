"""A worker is killed at each step of each effect: no work is lost, repeated or stranded."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.conftest import NewDeployment, StartWorkers
from tests.end_to_end.deployment import Deployment, overlaps, thread
from tests.end_to_end.threads.test_families import part, split

RESTARTS = ("before_claim", "after_claim", "before_commit", "after_commit")


@pytest.fixture(scope="module")
def shared_variables(shared_folder: Path) -> dict[str, str]:
    return {"INTERLOCK_CARDS": str(shared_folder / "cards")}


@pytest.fixture(scope="module")
def start_shared() -> StartWorkers:
    """Return a function that starts workers which are replaced when they are killed."""
    return partial(Deployment.tend, workers=3)


@pytest.fixture
def deployment(joint_deployment: Deployment) -> Deployment:
    """Return a deployment that the tests of this module share, each with its own records."""
    return joint_deployment


def spans(deployment: Deployment, record_id: str) -> list[dict[str, float]]:
    """Return the begin and the end of each run of a record's capability."""
    ends = {line["token"]: line["at"] for line in deployment.saw(record_id, "end")}
    return [
        {"started": line["at"], "ended": ends.get(line["token"], line["at"])}
        for line in deployment.saw(record_id, "start")
    ]


def test_a_worker_killed_at_any_step_of_an_idempotent_execution_finishes_it_under_one_key(
    deployment: Deployment,
) -> None:
    ids = [f"kill-{point}-execution-idempotent" for point in RESTARTS]
    for name in ids:
        deployment.client.submit(thread("jot"), machine="thread", id=name)
    deployment.client.submit(thread("deadly"), machine="thread", id="mid-execution")

    ended = deployment.ends(*ids, "mid-execution")

    assert deployment.killed(*ids)
    assert {record.state for record in ended} == {"done"}
    for record in ended:
        assert len({line["key"] for line in deployment.saw(record.id, "start")}) == 1
        assert deployment.saw(record.id, "end")
        started, finished = (
            len(deployment.notes(record.id, f"execution_{what}"))
            for what in ("started", "finished")
        )
        assert started == finished, "every start in the log has an end, also of a lost worker"
    assert len(deployment.saw("mid-execution", "start")) == 2
    assert len(deployment.saw("kill-after_commit-execution-idempotent", "start")) == 1


def test_a_worker_killed_in_an_execution_that_is_not_idempotent_leaves_a_card_and_no_second_run(
    deployment: Deployment,
) -> None:
    begun = ["kill-after_claim-execution-once", "kill-before_commit-execution-once", "mid-once"]
    unbegun = ["kill-before_claim-execution-once", "kill-after_commit-execution-once"]
    for name in [*begun[:2], *unbegun]:
        deployment.client.submit(thread("jot_once"), machine="thread", id=name)
    deployment.client.submit(thread("deadly_once"), machine="thread", id="mid-once")

    for name in begun:
        record = deployment.reaches(name, "awaiting_redirect")
        assert record.data["failure"]["code"] == "lost_worker"
        assert deployment.events(name)[-1].cause.actor == "orphans"
        card = deployment.client.card(name)
        assert card is not None
        assert "lost" in card.question
        assert len(deployment.saw(name, "start")) <= 1
    assert {record.state for record in deployment.ends(*unbegun)} == {"done"}
    assert deployment.killed(*begun[:2], *unbegun)
    deployment.sees(
        lambda: (
            [n.detail["error"] for n in deployment.notes("mid-once", "execution_finished")]
            == ["unconfirmed"]
        ),
        what="the execution that was begun and lost has its end in the log",
    )
    for name in unbegun:
        assert len(deployment.saw(name, "start")) == 1


def test_a_worker_killed_at_any_step_of_an_inference_costs_an_attempt_or_asks_a_person(
    deployment: Deployment,
) -> None:
    restarts = [f"kill-{point}-inference" for point in ("before_claim", "after_claim")]
    restarts.append("kill-after_commit-inference")
    carried = [f"kill-{point}-inference" for point in ("after_start", "before_commit")]
    for name in [*restarts, *carried]:
        deployment.client.submit(thread("jot"), machine="thread", id=name)

    assert {record.state for record in deployment.ends(*restarts)} == {"done"}
    assert deployment.killed(*restarts)
    for name in carried:
        record = deployment.reaches(name, "awaiting_intent_clarification")
        assert record.data["failure"]["code"] == "lost_worker"


def test_a_worker_killed_at_any_step_of_a_family_creates_and_counts_every_child_once(
    deployment: Deployment,
) -> None:
    ids = [f"kill-{point}-cascade" for point in RESTARTS]
    ids += [
        f"kill-{point}-spawn"
        for point in ("before_claim", "after_claim", "before_settle", "after_settle")
    ]
    for name in ids:
        payload = thread("jot")
        payload["given"]["action"]["kind"] = "suggestion"
        deployment.client.submit(payload, machine="thread", id=name)
    for name in ids:
        split(deployment, [part(), part()], record_id=name)

    ended = deployment.ends(*ids, within_s=90)

    assert deployment.killed(*ids)
    assert [record.data["tally"] for record in ended] == [{"done": 2}] * len(ids)


def test_a_worker_killed_at_any_step_of_a_clean_up_cleans_up_under_one_key(
    deployment: Deployment,
) -> None:
    ids = [f"kill-{point}-cleanup" for point in RESTARTS]
    for name in [*ids, "mid-cleanup"]:
        payload = thread("jot", policy="plan_then_review", source="witnessed")
        payload["inciting"]["fields"] = {"deadly": name == "mid-cleanup"}
        deployment.client.submit(payload, machine="thread", id=name)
    for name in [*ids, "mid-cleanup"]:
        deployment.reaches(name, "awaiting_confirmation")
        deployment.client.fire(name, "cleanup_requested")

    ended = deployment.ends(*ids, "mid-cleanup")

    assert deployment.killed(*ids)
    assert {record.state for record in ended} == {"done_cleanup_successful"}
    for record in ended:
        assert len({line["key"] for line in deployment.saw(record.id, "clean")}) == 1


def test_a_card_is_shown_although_its_worker_is_killed(
    deployment: Deployment,
) -> None:
    points = ("before_claim", "after_claim", "before_settle", "after_settle")
    ids = [f"kill-{point}-resolution" for point in points]
    for name in ids:
        deployment.client.submit(
            thread("jot", policy="plan_then_review"), machine="thread", id=name
        )

    for name in ids:
        card = deployment.folder / "cards" / f"{name}.json"
        deployment.sees(card.exists, what=f"the card of {name}")
        deployment.comes_to_rest(name)
    assert deployment.killed(*ids)


def test_an_effect_that_kills_every_worker_ends_before_a_person(
    deployment: Deployment,
) -> None:
    deployment.client.submit(thread("always_deadly"), machine="thread", id="poison")

    record = deployment.reaches("poison", "awaiting_redirect", within_s=90)

    failure = record.data["failure"]
    assert failure["code"] == "exhausted"
    # One worker dies of it. Then it has as many attempts in processes of its own as it has at all.
    starts = deployment.saw("poison", "start")
    assert len(starts) == len({start["pid"] for start in starts}) == 4
    assert "given up after 4 attempts, during 1 of which its worker died" in failure["detail"]
    assert "killed by SIGKILL, as the system does when memory runs out" in failure["detail"]


def test_the_lease_of_a_long_effect_is_renewed_and_it_runs_once(
    new_deployment: NewDeployment, tmp_path: Path
) -> None:
    deployment, go = new_deployment().full(workers=2), tmp_path / "go"
    begin(deployment, go=str(go))
    for name in LONG:
        deployment.lease_is_renewed(name)
    go.touch()

    run_once(deployment)


@pytest.mark.proof
def test_an_effect_of_130_s_under_a_lease_of_60_s_runs_once_at_a_time(
    new_deployment: NewDeployment,
) -> None:
    deployment = new_deployment().full(workers=2)
    begin(deployment, seconds=130)

    run_once(deployment)


LONG = {"soft": "slow", "hard": "stubborn", "once": "slow_once"}


def begin(deployment: Deployment, **parameters: Any) -> None:
    """Submit a thread with a long effect of each kind."""
    for name, capability in LONG.items():
        deployment.client.submit(thread(capability, **parameters), machine="thread", id=name)


def run_once(deployment: Deployment) -> None:
    """Wait for the ends of the long effects, and count their runs."""
    for record in deployment.ends(*LONG, within_s=220):
        assert record.state == "done"
        assert len(deployment.saw(record.id, "start")) == 1
        assert not list(overlaps(spans(deployment, record.id)))
        assert not deployment.notes(record.id, "lapse")
