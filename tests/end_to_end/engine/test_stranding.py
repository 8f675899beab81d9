"""Each fault that can strand a thread is injected, and the thread recovers from it."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis

from interlock.kernel.errors import GuardRefusedError
from interlock.kernel.event import Cause
from interlock.kernel.record import partition_of
from interlock.kernel.store.keys import Keys
from interlock.systems.threads.client import Threads
from interlock.workers.engine.dispatch import Dispatch
from tests.end_to_end.conftest import NewDeployment
from tests.end_to_end.deployment import Deployment, thread


@pytest.fixture
def deployment(joint_deployment: Deployment) -> Deployment:
    """Return a deployment that tests of this module share, each with its own records."""
    return joint_deployment


def test_proposed_whose_producer_died_before_it_began_is_begun_by_the_sweep(
    deployment: Deployment,
) -> None:
    one = f"{deployment.scope}-one"
    producer = Cause("producer")
    deployment.client.dispatch.lifecycle.create("thread", one, thread("jot"), producer)

    assert deployment.ends(one)[0].state == "done"
    begun = next(event for event in deployment.events(one) if event.trigger == "begin_inference")
    assert begun.cause.actor == "stalls"


def test_awaiting_inference_whose_message_was_lost_is_published_again(
    new_deployment: NewDeployment, client: redis.Redis
) -> None:
    deployment = new_deployment()
    deployment.client.submit(thread("jot"), machine="thread", id="one")
    for name in client.keys(f"{deployment.prefix}.*"):
        client.delete(name)

    deployment.full()

    assert deployment.ends("one")[0].state == "done"


def test_awaiting_inference_goes_on_when_a_worker_comes_back(new_deployment: NewDeployment) -> None:
    deployment = new_deployment()
    worker = deployment.worker()
    deployment.beat()
    worker.kill()
    deployment.client.submit(thread("jot"), machine="thread", id="one")

    deployment.worker()

    assert deployment.ends("one")[0].state == "done"


def test_executing_a_capability_that_hangs_ends_at_its_deadline(deployment: Deployment) -> None:
    one = f"{deployment.scope}-one"
    deployment.client.submit(thread("endless"), machine="thread", id=one)

    record = deployment.reaches(one, "awaiting_redirect")

    assert record.data["failure"]["code"] == "deadline"
    finished = deployment.notes(one, "execution_finished")[-1].detail
    assert (finished["success"], finished["error"]) == (False, "deadline")


def test_executing_without_a_proposal_is_refused_and_the_card_shows_what_to_do(
    deployment: Deployment,
) -> None:
    one = f"{deployment.scope}-one"
    deployment.client.submit(thread("jot", policy="plan_then_review"), machine="thread", id=one)
    waiting = deployment.reaches(one, "awaiting_confirmation")
    cleared = deployment.client.decide(one, "edit", {"clear": True}, proposal=waiting.proposal)

    with pytest.raises(GuardRefusedError, match="edit it first"):
        deployment.client.decide(one, "approve", proposal=cleared.proposal)
    card = deployment.client.card(one)
    assert card is not None
    assert "taken back" in card.question
    again = {"capability": "jot", "parameters": {"text": "again"}}
    edited = deployment.client.decide(one, "edit", again, proposal=cleared.proposal)
    deployment.client.decide(one, "approve", proposal=edited.proposal)

    assert deployment.ends(one)[0].data["result"] == "again"


def test_cleaning_up_whose_worker_dies_is_done_by_another(
    new_deployment: NewDeployment, tmp_path: Path
) -> None:
    deployment, go = new_deployment(), tmp_path / "go"
    first = deployment.worker()
    deployment.beat()
    payload = thread("jot", policy="plan_then_review", source="witnessed")
    payload["inciting"]["fields"] = {"go": str(go)}
    deployment.client.submit(payload, machine="thread", id="one")
    deployment.reaches("one", "awaiting_confirmation")
    deployment.client.fire("one", "cleanup_requested")
    deployment.sees(lambda: deployment.saw("one", "clean"), what="it cleans up")
    first.kill()
    go.touch()

    deployment.worker()

    assert deployment.ends("one")[0].state == "done_cleanup_successful"
    assert len({line["key"] for line in deployment.saw("one", "clean")}) == 1


def test_monitoring_that_missed_the_end_of_a_child_rechecks(
    deployment: Deployment, client: redis.Redis
) -> None:
    one = f"{deployment.scope}-one"
    payload = thread("jot")
    payload["given"]["action"]["kind"] = "suggestion"
    deployment.client.submit(payload, machine="thread", id=one)
    waiting = deployment.reaches(one, "awaiting_confirmation")
    parts = [
        {"title": "quick", "given": thread("jot")["given"]},
        {"title": "asks", "policy": "ask_every_step", "given": thread("jot")["given"]},
    ]
    parent = Threads(deployment.client).decompose(one, parts, proposal=waiting.proposal)
    quick, asks = (f"{one}/{parent.version}.{n}" for n in (1, 2))
    deployment.ends(quick)
    deployment.reaches(asks, "awaiting_intent_confirmation")
    # As if the end of the first had not been counted, and the recheck were due.
    keys, members = Keys(deployment.prefix), f"children:{parent.version}"
    client.sadd(keys.members(one, members), quick)
    client.hdel(keys.tally(one, members), "done")
    deployment.client.cancel(asks)
    due(deployment.client.dispatch, client, one, "recheck")

    record = deployment.ends(one)[0]

    assert (record.state, record.data["tally"]) == ("done", {"done": 1, "dismissed": 1})


def test_a_card_that_could_not_be_shown_is_shown_later(new_deployment: NewDeployment) -> None:
    deployment = new_deployment()
    cards = deployment.folder / "cards"
    cards.write_text("a file where a folder should be")
    deployment.variables["INTERLOCK_CARDS"] = str(cards)
    deployment.full()
    deployment.client.submit(thread("jot", policy="plan_then_review"), machine="thread", id="one")
    deployment.sees(lambda: deployment.notes("one", "effect_failed"), what="the surface failed")

    cards.unlink()

    deployment.sees((cards / "one.json").exists, what="the card is there")
    waiting = deployment.client.show("one")
    deployment.client.decide("one", "approve", proposal=waiting.proposal)
    deployment.ends("one")
    deployment.sees(lambda: not (cards / "one.json").exists(), what="the card is taken away")


def test_an_active_state_that_gets_no_outcome_for_hours_asks_a_person(
    new_deployment: NewDeployment, client: redis.Redis
) -> None:
    deployment = new_deployment()
    deployment.beat()
    deployment.worker(queues=("sweeps", "resolution"))
    deployment.client.submit(thread("jot"), machine="thread", id="one")
    due(deployment.client.dispatch, client, "one", "stall")

    record = deployment.reaches("one", "awaiting_intent_clarification")

    assert record.data["failure"]["code"] == "stalled"
    assert deployment.events("one")[-1].cause.actor == "stalls"


def due(
    dispatch: Dispatch, client: redis.Redis, record_id: str, timer: str, *, in_ms: int = 0
) -> int:
    """Make a timer due now, or soon, instead of in hours. Return when it is due."""
    keys, partition_key = dispatch.keys, f"t:{timer}"
    line = client.hget(keys.record(record_id), partition_key)
    assert isinstance(line, bytes), f"{record_id} has no timer {timer}"
    _, created, delay, fired = line.decode().split(" ")
    now = dispatch.views.now_ms() + in_ms
    client.hset(keys.record(record_id), partition_key, f"{now} {created} {delay} {fired}")
    client.zadd(keys.timers(partition_of(record_id)), {f"{record_id}:{timer}": now})
    return now
