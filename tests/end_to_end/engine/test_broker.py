"""Messages that the broker loses or doubles cost time and change no result."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis

from tests.conftest import NewProxy, NewServer
from tests.end_to_end.conftest import NewDeployment
from tests.end_to_end.deployment import Deployment, thread

# As in a deployment: events go over the broker too.
VARIABLES = {"INTERLOCK_TASK_EVENTS": "1"}
KINDS = ("jot", "slow", "jot_once", "jot_reviewed")


def load(deployment: Deployment, number: int) -> list[str]:
    """Submit threads of several kinds."""
    ids = [f"t{n}" for n in range(number)]
    for n, name in enumerate(ids):
        capability = KINDS[n % len(KINDS)]
        parameters: dict[str, Any] = {"seconds": 0.2} if capability == "slow" else {}
        deployment.client.submit(thread(capability, **parameters), machine="thread", id=name)
    return ids


def bring_to_an_end(deployment: Deployment, ids: list[str], *, within_s: float = 90) -> None:
    """Accept every review, and check that each capability ran once, under one key."""
    for name in ids[3::4]:
        asked = deployment.reaches(name, "awaiting_review", within_s=within_s)
        deployment.client.decide(name, "done", proposal=asked.proposal)
    for record in deployment.ends(*ids, within_s=within_s):
        assert record.state == "done"
        assert len(deployment.saw(record.id, "end")) == 1, "no effect ran twice"
        assert len(deployment.saw(record.id, "start")) == 1


def queues_of(deployment: Deployment, client: redis.Redis) -> list[bytes | str]:
    """Return the lists that hold messages."""
    return [name for name in client.keys(f"{deployment.prefix}.*") if client.type(name) == b"list"]


@contextmanager
def emptying(deployment: Deployment, client: redis.Redis) -> Iterator[None]:
    """Empty the broker again and again within the block."""
    stop = threading.Event()

    def empty() -> None:
        while not stop.wait(0.02):
            for name in queues_of(deployment, client):
                client.delete(name)

    chaos = threading.Thread(target=empty)
    chaos.start()
    try:
        yield
    finally:
        stop.set()
        chaos.join()


def test_a_broker_that_drops_and_doubles_three_of_ten_messages_loses_no_thread(
    new_deployment: NewDeployment,
) -> None:
    deployment = new_deployment(DEPLOYMENT_BROKER="bad").full(workers=2)

    bring_to_an_end(deployment, load(deployment, 12))


def test_a_broker_that_is_emptied_under_load_loses_no_thread(
    new_deployment: NewDeployment, client: redis.Redis
) -> None:
    deployment = new_deployment().full(workers=2, concurrency=4)
    with emptying(deployment, client):
        ids = load(deployment, 40)
        deployment.sees(lambda: deployment.recorded, what="an effect ran meanwhile")

    bring_to_an_end(deployment, ids)


def test_messages_that_are_published_plainly_run_a_thread_to_done(
    new_deployment: NewDeployment,
) -> None:
    deployment = new_deployment(INTERLOCK_ENQUEUE="plain").full()

    bring_to_an_end(deployment, load(deployment, 8))
    assert not deployment.client.settings.fused


@pytest.mark.slow
def test_rabbitmq_as_the_broker_runs_a_thread_to_done(
    new_deployment: NewDeployment, rabbitmq: str
) -> None:
    deployment = new_deployment(INTERLOCK_BROKER_URL=rabbitmq).full()

    bring_to_an_end(deployment, load(deployment, 8))


def overtakes(deployment: Deployment) -> None:
    """Let effects wait before the only worker starts; the last one is a little more urgent."""
    for n in range(12):
        deployment.client.submit(thread("jot"), machine="thread", id=f"t{n}", priority=5)
    deployment.client.submit(thread("jot"), machine="thread", id="urgent", priority=4)

    deployment.full(concurrency=1)
    deployment.ends("urgent", *(f"t{n}" for n in range(12)))

    assert deployment.recorded[0]["record"] == "urgent"


def test_an_urgent_effect_overtakes_waiting_ones(new_deployment: NewDeployment) -> None:
    overtakes(new_deployment())


@pytest.mark.slow(minutes=1)
def test_an_urgent_effect_overtakes_waiting_ones_on_rabbitmq(
    new_deployment: NewDeployment, rabbitmq: str
) -> None:
    overtakes(new_deployment(INTERLOCK_BROKER_URL=rabbitmq))


@pytest.mark.proof
def test_connections_that_died_silently_are_noticed_and_replaced(
    new_deployment: NewDeployment, new_server: NewServer, new_proxy: NewProxy
) -> None:
    proxy = new_proxy(new_server().port)
    deployment = new_deployment(INTERLOCK_BROKER_URL=proxy.url).full()
    deployment.client.submit(thread("jot"), machine="thread", id="before")
    assert deployment.ends("before")[0].state == "done"

    # Neither worker, beat nor producer sees an end of its connection.
    proxy.half_open()
    deployment.client.submit(thread("jot"), machine="thread", id="after")

    assert deployment.ends("after", within_s=90)[0].state == "done"
    assert all(process.alive for process in deployment.processes)


@pytest.mark.proof
def test_a_backlog_drains_without_a_storm(
    new_deployment: NewDeployment, client: redis.Redis
) -> None:
    drains(new_deployment(), client, 300)


@pytest.mark.proof
@pytest.mark.slow(minutes=11)
def test_a_backlog_of_twenty_thousand_drains_without_a_storm(
    new_deployment: NewDeployment, client: redis.Redis
) -> None:
    drains(new_deployment(INTERLOCK_POLL_S="5"), client, 20_000)


def drains(deployment: Deployment, client: redis.Redis, number: int) -> None:
    """Let a backlog grow before the only worker starts, and count all pushed messages."""
    # Nobody is lost, and to look for lost ones in so long a backlog takes long.
    deployment.ends_lost_leases = False
    deployment.beat()
    for n in range(number):
        deployment.client.submit(thread("jot"), machine="thread", id=f"t{n}", priority=n % 10)
    pushed = pushes(client)

    deployment.worker(concurrency=8)
    deployment.ends(*(f"t{n}" for n in range(number)), within_s=number / 10 + 180)

    effects = 4 * number
    assert pushes(client) - pushed <= 3 * effects
    assert len(deployment.recorded) == 2 * number


def pushes(client: redis.Redis) -> int:
    """Return how many messages were ever pushed to the server."""
    return int(client.info("commandstats").get("cmdstat_lpush", {}).get("calls", 0))
