"""The broker is a doorbell: what it loses, doubles or forgets costs time, never correctness."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis

from tests.conftest import NewProxy, NewServer
from tests.end_to_end.conftest import NewHouse
from tests.end_to_end.deployment import House, thread

KINDS = ("jot", "slow", "jot_once", "jot_reviewed")


def load(house: House, number: int) -> list[str]:
    """Submit threads of several kinds."""
    ids = [f"t{n}" for n in range(number)]
    for n, name in enumerate(ids):
        capability = KINDS[n % len(KINDS)]
        parameters: dict[str, Any] = {"seconds": 0.2} if capability == "slow" else {}
        house.client.submit(thread(capability, **parameters), machine="thread", id=name)
    return ids


def bring_to_an_end(house: House, ids: list[str], *, within_s: float = 90) -> None:
    """Accept every review, and check that each capability ran once, under one key."""
    for name in ids[3::4]:
        asked = house.reaches(name, "awaiting_review", within_s=within_s)
        house.client.decide(name, "done", proposal=asked.proposal)
    for record in house.ends(*ids, within_s=within_s):
        assert record.state == "done"
        assert len(house.saw(record.id, "end")) == 1, "nothing was done twice"
        assert len(house.saw(record.id, "start")) == 1


def queues_of(house: House, client: redis.Redis) -> list[bytes | str]:
    """Return the lists that hold messages."""
    return [name for name in client.keys(f"{house.prefix}.*") if client.type(name) == b"list"]


@contextmanager
def emptying(house: House, client: redis.Redis) -> Iterator[None]:
    """Empty the broker over and over while the block lasts."""
    over = threading.Event()

    def empty() -> None:
        while not over.wait(0.02):
            for name in queues_of(house, client):
                client.delete(name)

    chaos = threading.Thread(target=empty)
    chaos.start()
    try:
        yield
    finally:
        over.set()
        chaos.join()


def test_a_broker_that_drops_and_doubles_three_of_ten_messages_loses_no_thread(
    new_house: NewHouse,
) -> None:
    house = new_house(HOUSE_BROKER="bad").full(workers=2)

    bring_to_an_end(house, load(house, 12))


def test_a_broker_that_is_emptied_under_load_loses_no_thread(
    new_house: NewHouse, client: redis.Redis
) -> None:
    house = new_house().full(workers=2, concurrency=4)
    with emptying(house, client):
        ids = load(house, 40)
        house.sees(lambda: house.witness, what="something was done meanwhile")

    bring_to_an_end(house, ids)


def test_messages_that_are_published_plainly_run_a_thread_to_done(new_house: NewHouse) -> None:
    house = new_house(INTERLOCK_ENQUEUE="plain").full()

    bring_to_an_end(house, load(house, 8))
    assert not house.client.settings.fused


@pytest.mark.slow
def test_rabbitmq_as_the_broker_runs_a_thread_to_done(new_house: NewHouse, rabbitmq: str) -> None:
    house = new_house(INTERLOCK_BROKER_URL=rabbitmq).full()

    bring_to_an_end(house, load(house, 8))


def overtakes(house: House) -> None:
    """Let work pile up before the only worker starts; the last that came is the most urgent."""
    for n in range(12):
        house.client.submit(thread("jot"), machine="thread", id=f"t{n}", priority=9)
    house.client.submit(thread("jot"), machine="thread", id="urgent", priority=0)

    house.full(concurrency=1)
    house.ends("urgent", *(f"t{n}" for n in range(12)))

    assert house.witness[0]["record"] == "urgent"


def test_what_is_urgent_overtakes_what_waits(new_house: NewHouse) -> None:
    overtakes(new_house())


@pytest.mark.slow
def test_what_is_urgent_overtakes_what_waits_on_rabbitmq(
    new_house: NewHouse, rabbitmq: str
) -> None:
    overtakes(new_house(INTERLOCK_BROKER_URL=rabbitmq))


@pytest.mark.proof
def test_connections_that_died_silently_are_noticed_and_made_anew(
    new_house: NewHouse, new_server: NewServer, new_proxy: NewProxy
) -> None:
    proxy = new_proxy(new_server().port)
    house = new_house(INTERLOCK_BROKER_URL=proxy.url).full()
    house.client.submit(thread("jot"), machine="thread", id="before")
    assert house.ends("before")[0].state == "done"

    # Nobody is told: neither worker, beat nor producer sees an end of what it is connected to.
    proxy.half_open()
    house.client.submit(thread("jot"), machine="thread", id="after")

    assert house.ends("after", within_s=90)[0].state == "done"
    assert all(process.alive for process in house.processes)


@pytest.mark.proof
def test_a_backlog_drains_without_a_storm(new_house: NewHouse, client: redis.Redis) -> None:
    drains(new_house(), client, 300)


@pytest.mark.proof
def test_a_backlog_of_fifty_thousand_drains_without_a_storm(
    new_house: NewHouse, client: redis.Redis
) -> None:
    drains(new_house(INTERLOCK_LOOK_S="5"), client, 50_000)


def drains(house: House, client: redis.Redis, number: int) -> None:
    """Let a backlog grow before the only worker starts, and count every message ever pushed."""
    house.beat()
    for n in range(number):
        house.client.submit(thread("jot"), machine="thread", id=f"t{n}", priority=n % 10)
    pushed = pushes(client)

    house.worker(concurrency=8)
    house.ends(*(f"t{n}" for n in range(number)), within_s=number / 20 + 60)

    effects = 4 * number
    assert pushes(client) - pushed <= 3 * effects
    assert len(house.witness) == 2 * number


def pushes(client: redis.Redis) -> int:
    """Return how many messages the server ever took, whoever pushed them."""
    return int(client.info("commandstats").get("cmdstat_lpush", {}).get("calls", 0))
