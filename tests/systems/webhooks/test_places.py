"""An endpoint that does not answer takes its share of a worker's threads, and no more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from threading import Thread

import pytest

from interlock.kernel.machines import MACHINES
from interlock.systems.webhooks import places
from interlock.systems.webhooks.places import GAP_S, RETURN_S, SHARE, Places, open_places
from interlock.systems.webhooks.sweeps.deliveries import SWEEP
from interlock.workers.engine.sweeper import sweep_all
from interlock.workers.engine.work import NotYetError
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.systems import handlers
from tests.fakes.webhook_receiver import HANG, Receiver, receiver
from tests.systems.webhooks.test_endpoints import SECRET
from tests.waiting import until
from tests.workers.engine.running import Running, perform, settings_for

ROW = "{{name: {name}, url: '{url}', secrets: [{secret}], allow_private: true}}"


# --- the places of one worker ------------------------------------------------------------------


def test_a_message_that_finds_no_place_is_sent_away_and_those_of_others_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(places, "PATIENCE_S", 0.0)
    of_worker = Places(2)

    async def scene() -> list[float]:
        async with AsyncExitStack() as stack:
            for _ in range(2):
                await stack.enter_async_context(of_worker.place("hangs"))
            away = []
            for _ in range(3):
                with pytest.raises(
                    NotYetError, match="2 messages to the endpoint hangs wait"
                ) as why:
                    await stack.enter_async_context(of_worker.place("hangs"))
                away.append(why.value.after_s or 0.0)
            await stack.enter_async_context(of_worker.place("other"))
        async with of_worker.place("hangs"):  # as soon as one has left
            return away

    first, second, third = asyncio.run(scene())
    assert first == RETURN_S
    assert second < third < RETURN_S + 2 * GAP_S + 0.001, "one after the other, not all at once"


def test_while_an_endpoint_answers_a_message_waits_for_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(places, "PATIENCE_S", 600.0)
    of_worker, sent = Places(1), []

    async def send(number: int) -> None:
        async with of_worker.place("answers"):
            await asyncio.sleep(0)
            sent.append(number)

    async def scene() -> None:
        await asyncio.gather(*map(send, range(50)))

    asyncio.run(scene())
    assert sent == [*range(50)]


def test_patience_begins_anew_only_when_a_place_is_taken_or_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(places, "PATIENCE_S", 0.05)
    of_worker = Places(1)

    async def scene() -> float:
        clock = asyncio.get_running_loop().time
        async with of_worker.place("hangs"):
            await asyncio.sleep(0.06)
            began = clock()
            with pytest.raises(NotYetError):
                await of_worker.place("hangs").__aenter__()
            return clock() - began

    assert asyncio.run(scene()) < places.PATIENCE_S


# --- a worker ----------------------------------------------------------------------------------


@pytest.fixture
def new_running(
    server: EmbeddedServer, prefix: str, tmp_path: Path
) -> Callable[[dict[str, Receiver]], Running]:
    """Return a function that makes a worker with endpoints, each with one place."""

    def build(there: dict[str, Receiver]) -> Running:
        rows = [ROW.format(name=name, url=at.address, secret=SECRET) for name, at in there.items()]
        file = tmp_path / "webhooks.yaml"
        file.write_text(f"endpoints: [{', '.join(rows)}]")
        more = {"INTERLOCK_WEBHOOKS": str(file), "INTERLOCK_CONCURRENCY": str(SHARE)}
        return Running(settings_for(server.url, prefix, **more))

    return build


@contextmanager
def sending(running: Running, delivery: str, there: Receiver) -> Iterator[list[str]]:
    """Send a delivery in a thread of its own, and yield what becomes of it."""
    lines: list[str] = []
    thread = Thread(target=lambda: lines.append(send(running, delivery)))
    thread.start()
    try:
        yield lines
    finally:
        there.ends.set()
        thread.join()


def send(running: Running, delivery: str) -> str:
    key = running.entry(delivery).key(delivery)
    return perform(
        running.runner, MACHINES["delivery"], "webhook", handlers()["delivery.webhook"], key
    )


def deliveries(running: Running, endpoint: str) -> list[str]:
    """Return the deliveries to an endpoint."""
    rows = running.client.list(machine="delivery")
    return [row.id for row in rows if running.client.show(row.id).data["endpoint"] == endpoint]


def test_a_delivery_does_not_wait_behind_those_of_an_endpoint_that_hangs(
    new_running: Callable[[dict[str, Receiver]], Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "PATIENCE_S", 0.0)
    with receiver(HANG) as hanging, receiver() as healthy:
        running = new_running({"hangs": hanging, "healthy": healthy})
        sweep_all(running.dispatch, SWEEP)
        for record in ("one", "two"):
            payload = {"inciting": {"title": "Call"}, "hold": True}
            running.client.submit(payload, machine="thread", id=record)
        sweep_all(running.dispatch, SWEEP)
        first, second = deliveries(running, "hangs")
        with sending(running, first, hanging) as lines:
            until(lambda: hanging.requests, what="the endpoint has the first, and hangs")

            away = send(running, second)
            sent = [send(running, each) for each in deliveries(running, "healthy")]

            assert away.startswith("retry: waits (owed): 1 messages to the endpoint hangs wait")
            assert sent == ["delivered -> delivered"] * 2
            entry = running.entry(second)
            assert (entry.state, entry.attempts) == ("owed", 0)
            waits_ms = entry.not_before - running.dispatch.views.now_ms()
            assert 0 < waits_ms <= RETURN_S * 1_000
            assert not lines
        assert running.client.show(second).state == "sending"


def test_an_endpoint_has_a_share_of_the_threads_and_at_least_one(
    server: EmbeddedServer, prefix: str
) -> None:
    def per_endpoint(threads: int) -> int:
        settings = settings_for(server.url, prefix, INTERLOCK_CONCURRENCY=str(threads))
        return open_places(settings).per_endpoint

    assert [per_endpoint(threads) for threads in (1, 8, 20)] == [1, 2, 5]
