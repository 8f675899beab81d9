"""Every way in which the original left a thread stranded, injected here and recovered from."""

from __future__ import annotations

import pytest
import redis

from interlock.kernel.errors import GuardRefusedError
from interlock.kernel.event import Cause
from interlock.kernel.record import partition_of
from interlock.kernel.store.commands import Call
from interlock.kernel.store.keys import Keys
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.threads.client import Threads
from tests.end_to_end.conftest import NewHouse
from tests.end_to_end.deployment import House, thread


def test_proposed_whose_producer_died_before_it_began_is_begun_by_the_sweep(house: House) -> None:
    producer = Call(Cause("producer"))
    house.client.dispatch.create("thread", "one", thread("jot"), producer)

    assert house.ends("one")[0].state == "done"
    begun = next(event for event in house.events("one") if event.trigger == "begin_inference")
    assert begun.cause.actor == "stalls"


def test_awaiting_inference_whose_message_was_lost_is_published_again(
    new_house: NewHouse, client: redis.Redis
) -> None:
    house = new_house()
    house.client.submit(thread("jot"), machine="thread", id="one")
    for name in client.keys(f"{house.prefix}.*"):
        client.delete(name)

    house.full()

    assert house.ends("one")[0].state == "done"


def test_awaiting_inference_goes_on_when_a_worker_comes_back(new_house: NewHouse) -> None:
    house = new_house()
    worker = house.worker()
    house.beat()
    worker.kill()
    house.client.submit(thread("jot"), machine="thread", id="one")

    house.worker()

    assert house.ends("one")[0].state == "done"


def test_executing_a_capability_that_hangs_ends_at_its_deadline(house: House) -> None:
    house.client.submit(thread("endless"), machine="thread", id="one")

    record = house.reaches("one", "awaiting_redirect")

    assert record.data["failure"]["code"] == "deadline"
    finished = house.notes("one", "execution_finished")[-1].detail
    assert (finished["success"], finished["error"]) == (False, "deadline")


def test_executing_without_a_proposal_is_refused_and_the_card_says_what_to_do(house: House) -> None:
    house.client.submit(thread("jot", policy="plan_then_review"), machine="thread", id="one")
    asked = house.reaches("one", "awaiting_confirmation")
    cleared = house.client.decide("one", "edit", {"clear": True}, proposal=asked.proposal)

    with pytest.raises(GuardRefusedError, match="edit it first"):
        house.client.decide("one", "approve", proposal=cleared.proposal)
    card = house.client.card("one")
    assert card is not None
    assert "taken back" in card.question
    again = {"capability": "jot", "parameters": {"text": "again"}}
    edited = house.client.decide("one", "edit", again, proposal=cleared.proposal)
    house.client.decide("one", "approve", proposal=edited.proposal)

    assert house.ends("one")[0].data["result"] == "again"


def test_cleaning_up_whose_worker_dies_is_done_by_another(new_house: NewHouse) -> None:
    house = new_house()
    first = house.worker()
    house.beat()
    matter = thread("jot", policy="plan_then_review", source="witnessed")
    matter["inciting"]["fields"] = {"seconds": 5}
    house.client.submit(matter, machine="thread", id="one")
    house.reaches("one", "awaiting_confirmation")
    house.client.fire("one", "cleanup_requested")
    house.sees(lambda: house.saw("one", "clean"), what="it cleans up")
    first.kill()

    house.worker()

    assert house.ends("one")[0].state == "done_cleanup_successful"
    assert len({line["key"] for line in house.saw("one", "clean")}) == 1


def test_monitoring_that_missed_the_end_of_a_child_looks_again(
    house: House, client: redis.Redis
) -> None:
    matter = thread("jot")
    matter["given"]["action"]["kind"] = "suggestion"
    house.client.submit(matter, machine="thread", id="one")
    asked = house.reaches("one", "awaiting_confirmation")
    parts = [
        {"title": "quick", "given": thread("jot")["given"]},
        {"title": "asks", "policy": "hands_off", "given": thread("jot")["given"]},
    ]
    parent = Threads(house.client).decompose("one", parts, proposal=asked.proposal)
    quick, asks = (f"one/{parent.version}.{n}" for n in (1, 2))
    house.ends(quick)
    house.reaches(asks, "awaiting_intent_confirmation")
    # As if the end of the first had never been counted, and it were time to look.
    keys, members = Keys(house.prefix), f"children:{parent.version}"
    client.sadd(keys.members("one", members), quick)
    client.hdel(keys.tally("one", members), "done")
    house.client.cancel(asks)
    due(house.client.dispatch, client, "one", "recheck")

    record = house.ends("one")[0]

    assert (record.state, record.data["tally"]) == ("done", {"done": 1, "dismissed": 1})


def test_a_wait_whose_card_could_not_be_shown_is_shown_later(new_house: NewHouse) -> None:
    house = new_house()
    cards = house.folder / "cards"
    cards.write_text("a file where a folder should be")
    house.variables["INTERLOCK_CARDS"] = str(cards)
    house.full()
    house.client.submit(thread("jot", policy="plan_then_review"), machine="thread", id="one")
    house.sees(lambda: house.notes("one", "effect_failed"), what="the surface failed")

    cards.unlink()

    house.sees((cards / "one.json").exists, what="the card is there")
    asked = house.client.show("one")
    house.client.decide("one", "approve", proposal=asked.proposal)
    house.ends("one")
    house.sees(lambda: not (cards / "one.json").exists(), what="the card is taken away")


def test_an_active_state_that_gets_no_outcome_for_hours_asks_a_person(
    new_house: NewHouse, client: redis.Redis
) -> None:
    house = new_house()
    house.beat()
    house.worker(queues=("sweeps", "resolution"))
    house.client.submit(thread("jot"), machine="thread", id="one")
    due(house.client.dispatch, client, "one", "stall")

    record = house.reaches("one", "awaiting_intent_clarification")

    assert record.data["failure"]["code"] == "stalled"
    assert house.events("one")[-1].cause.actor == "stalls"


def due(dispatch: Dispatch, client: redis.Redis, record_id: str, timer: str) -> None:
    """Make a timer due now: nobody waits for hours."""
    keys, partition_key = dispatch.keys, f"t:{timer}"
    line = client.hget(keys.record(record_id), partition_key)
    assert isinstance(line, bytes), f"{record_id} has no timer {timer}"
    _, born, left, fired = line.decode().split(" ")
    now = dispatch.views.now_ms()
    client.hset(keys.record(record_id), partition_key, f"{now} {born} {left} {fired}")
    client.zadd(keys.timers(partition_of(record_id)), {f"{record_id}:{timer}": now})
