"""Sweeps run until no item is left or the time is up."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from celery import Celery

from interlock.kernel.errors import (
    FencedError,
    StoreDownError,
    UnreadableRecordError,
)
from interlock.kernel.record import PARTITIONS, partition_of
from interlock.workers.engine.sweeper import (
    Sweep,
    act_on_each,
    late_sweeps,
    register_sweeps,
    sweep_all,
)
from interlock.workers.engine.sweeps import orphans, stalls
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.systems import sweeps
from tests.conftest import NewProxy
from tests.end_to_end.deployment import thread
from tests.round_trips import round_trips
from tests.sweeping import sweeping
from tests.waiting import until
from tests.workers.engine.running import Running, settings_for


@pytest.fixture
def running(server: EmbeddedServer, prefix: str) -> Running:
    more = {
        # No effect is due before its test says so.
        "INTERLOCK_POLL_S": "3600",
        "INTERLOCK_SWEEP_BATCH": "3",
    }
    return Running(settings_for(server.url, prefix, **more))


def raising(error: Exception) -> Any:
    def act() -> str:
        raise error

    return act


def test_an_item_that_fails_is_counted_and_the_others_go_on() -> None:
    items = {
        "a": raising(FencedError("a", "token")),
        "b": raising(ZeroDivisionError()),
        "c": lambda: "done",
        "d": raising(UnreadableRecordError("d", "its field 'data' is missing")),
    }

    assert act_on_each(items) == Counter(refused=1, failed=2, done=1)


def test_a_store_error_ends_the_sweep() -> None:
    with pytest.raises(StoreDownError):
        act_on_each({"a": raising(StoreDownError("away")), "b": lambda: "done"})


def test_a_sweep_goes_on_until_no_partition_has_an_item(running: Running) -> None:
    left = Counter({7: 8, 9: 1})

    def run(_: Any, partition: int) -> Counter[str]:
        found = min(left[partition], 3)
        left[partition] -= found
        return Counter(done=found)

    assert sweep_all(running.dispatch, Sweep("test", lambda _: [7, 9], run)) == Counter(done=9)
    assert not left.total()


def test_a_sweep_does_not_spin_on_items_that_stay(running: Running) -> None:
    passes: list[int] = []

    def run(_: Any, partition: int) -> Counter[str]:
        passes.append(partition)
        return Counter(busy=2, refused=1)

    seen = sweep_all(running.dispatch, Sweep("test", lambda _: range(PARTITIONS), run))

    assert sorted(passes) == [*range(PARTITIONS)]
    assert "out of time" not in seen


def test_a_sweep_ends_when_its_time_is_up(server: EmbeddedServer, prefix: str) -> None:
    more = {"INTERLOCK_SWEEP_BUDGET_S": "0.05", "INTERLOCK_SWEEP_BATCH": "3"}
    running = Running(settings_for(server.url, prefix, **more))

    seen = sweep_all(running.dispatch, Sweep("test", lambda _: [7], lambda *_: Counter(done=3)))

    assert seen["out of time"] == 1


def test_an_idle_sweep_takes_a_few_round_trips(running: Running) -> None:
    running.client.submit(thread("jot"), machine="thread", id="one")
    for sweep in sweeps():
        sweep_all(running.dispatch, sweep)
        with round_trips() as sent:
            assert not sweep_all(running.dispatch, sweep)
        assert sent() <= 10, sweep.name


def test_a_sweep_visits_only_partitions_with_a_due_item(running: Running) -> None:
    running.client.submit(thread("jot"), machine="thread", id="one")
    running.client.submit(thread("jot"), machine="thread", id="two")
    assert orphans.SWEEP.due(sweeping(running.dispatch)) == []

    hurry(running, "one")

    assert orphans.SWEEP.due(sweeping(running.dispatch)) == [partition_of("one")]


def test_of_the_messages_of_a_sweep_one_runs_in_half_a_period(running: Running) -> None:
    begin = running.dispatch.indexes.begin_sweep

    assert begin("orphans", 3_600_000)
    assert not begin("orphans", 3_600_000), "a second beat, or a message that waited"
    assert begin("stalls", 3_600_000), "another sweep"
    assert begin("orphans", 0), "half of its period is over"


def test_a_sweep_goes_on_after_the_clock_of_the_store_was_set_back(running: Running) -> None:
    dispatch = running.dispatch
    in_an_hour = dispatch.views.now_ms() + 3_600_000
    dispatch.client.hset(dispatch.keys.sweeps(), "orphans", in_an_hour)

    assert dispatch.indexes.begin_sweep("orphans", 60_000)


def test_a_sweep_that_nobody_runs_is_late(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    dispatch = running.dispatch
    assert late_sweeps(dispatch, [stalls.SWEEP]) == {"stalls": None}
    dispatch.indexes.count_sweep("stalls", {})
    ended_ms = dispatch.indexes.last_sweeps()["stalls"]
    monkeypatch.setattr(dispatch.views, "now_ms", lambda: ended_ms + 1_000)
    assert late_sweeps(dispatch, [stalls.SWEEP]) == {}

    monkeypatch.setattr(dispatch.views, "now_ms", lambda: ended_ms + 60_000)

    assert late_sweeps(dispatch, [stalls.SWEEP]) == {"stalls": 60}
    unneeded = replace(stalls.SWEEP, is_needed=lambda _: False)
    assert late_sweeps(dispatch, [unneeded]) == {}


@pytest.mark.parametrize("error", [StoreDownError("away"), ZeroDivisionError()])
def test_a_sweep_that_is_given_up_each_time_is_late(running: Running, error: Exception) -> None:
    def given_up(_: Any) -> list[int]:
        raise error

    app = Celery("sweeping", set_as_current=False)
    failing, whole = Sweep("failing", given_up, lambda *_: Counter()), replace(stalls.SWEEP)
    register_sweeps(app, running.dispatch, (failing, whole))

    for sweep in (failing, whole):
        with suppress(ZeroDivisionError):
            app.tasks[f"sweep.{sweep.name}"]()

    assert late_sweeps(running.dispatch, [failing, whole]) == {"failing": None}


def test_the_orphan_sweep_publishes_an_unclaimed_effect_when_it_is_due(running: Running) -> None:
    running.client.submit(thread("jot"), machine="thread", id="one")
    partition = partition_of("one")

    assert not orphans.run(sweeping(running.dispatch), partition)
    hurry(running, "one")

    assert orphans.run(sweeping(running.dispatch), partition) == Counter(published=1)
    assert not orphans.run(sweeping(running.dispatch), partition), "it is not due again at once"


def test_a_message_in_a_long_queue_is_not_published_again_for_a_while(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    running.client.submit(thread("jot"), machine="thread", id="one")
    partition = partition_of("one")
    assert running.dispatch.publisher.queue_length("inference") == 1
    assert running.dispatch.publisher.queue_length("cleanup") == 0, "a queue that nobody used yet"

    monkeypatch.setattr(orphans, "QUEUE_LENGTH_LONG", 1)
    hurry(running, "one")
    assert orphans.run(sweeping(running.dispatch), partition) == Counter({"in line": 1})
    monkeypatch.setattr(orphans, "REPUBLISH_DELAY_MS", 0)
    hurry(running, "one")
    assert orphans.run(sweeping(running.dispatch), partition) == Counter(published=1)


def test_a_queue_is_counted_once_a_second_at_most(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.workers.engine.publisher.QUEUE_LENGTH_AGE_S", 3_600.0)
    running.client.submit(thread("jot"), machine="thread", id="one")
    assert running.dispatch.publisher.queue_length("inference") == 1
    running.client.submit(thread("jot"), machine="thread", id="two")

    assert running.dispatch.publisher.queue_length("inference") == 1
    monkeypatch.setattr("interlock.workers.engine.publisher.QUEUE_LENGTH_AGE_S", -1.0)
    assert running.dispatch.publisher.queue_length("inference") == 2


def test_many_queues_are_counted_over_as_many_connections_as_one(
    server: EmbeddedServer, prefix: str, new_proxy: NewProxy
) -> None:
    broker = new_proxy(server.port)
    running = Running(settings_for(server.url, prefix, INTERLOCK_BROKER_URL=broker.url))
    running.client.submit(thread("jot"), machine="thread", id="one")
    before = broker.connections
    assert running.dispatch.publisher.queue_length("merge") == 0
    for_one = broker.connections - before

    lengths = running.dispatch.publisher.queue_lengths(["cleanup", "inference", "cascade"])

    assert lengths == {"cleanup": 0, "inference": 1, "cascade": 0}
    assert broker.connections - before == 2 * for_one


@pytest.mark.slow
def test_a_queue_that_rabbitmq_does_not_have_hides_no_other(
    server: EmbeddedServer, prefix: str, rabbitmq: str
) -> None:
    running = Running(settings_for(server.url, prefix, INTERLOCK_BROKER_URL=rabbitmq))
    running.client.submit(thread("jot"), machine="thread", id="one")

    lengths = running.dispatch.publisher.queue_lengths(["cleanup", "inference", "cascade"])

    assert lengths == {"cleanup": 0, "inference": 1, "cascade": 0}


def test_a_broker_that_is_down_stops_no_producer_and_no_sweep(
    server: EmbeddedServer, prefix: str
) -> None:
    running = Running(
        settings_for(server.url, prefix, INTERLOCK_BROKER_URL="amqp://guest:guest@127.0.0.1:9//")
    )

    assert running.dispatch.publisher.queue_length("inference") == 0
    running.client.submit(thread("jot"), machine="thread", id="one")
    assert running.entry("one").state == "owed", "a sweep publishes it later"
    hurry(running, "one")
    assert orphans.run(sweeping(running.dispatch), partition_of("one")) == Counter(
        {"not published": 1}
    )


def test_a_gate_opened_before_a_restart_of_the_server_is_closed(running: Running) -> None:
    running.approved()
    entry, partition = running.entry("one"), partition_of("one")
    effect = running.dispatch.effect("thread", "execution")
    short = type(effect)(effect.name, lease_ms=1)
    key = entry.key("one")
    running.dispatch.leases.claim(key, short, nonce="n", holder="x", schema=9)
    until_ms = running.client.show("one").entries[0].lease_until
    until(lambda: running.dispatch.views.now_ms() > until_ms, what="its lease is over")
    hurry(running, "one")

    take = running.dispatch.indexes.poll_effects
    [closed] = take(partition, [key], gate_open=True, server="0" * 40)
    hurry(running, "one")
    here = running.dispatch.passes.check_server(partition, passing=False).server
    [open_] = take(partition, [key], gate_open=True, server=here)

    assert (closed.status, open_.status) == ("later", "publish")


def test_a_timer_that_is_due_fires_once(running: Running) -> None:
    for name, expires_s in (("later", 3_600), ("one", 1)):
        payload = {**thread("jot"), "hold": True, "expires_s": expires_s}
        running.client.submit(payload, machine="thread", id=name)
    assert not stalls.run(sweeping(running.dispatch), partition_of("later"))
    record = running.client.show("one")
    due_at = next(timer.due_at for timer in record.timers if timer.name == "expiry")

    seen, is_over = Counter[str](), False
    while not is_over:
        is_over = running.dispatch.views.now_ms() > due_at + 20
        seen += stalls.run(sweeping(running.dispatch), partition_of("one"))

    assert seen == Counter(fired=1)
    assert running.client.show("one").state == "dismissed"


def hurry(running: Running, record_id: str) -> None:
    """Make every effect of a record due."""
    index = running.dispatch.keys.effects(partition_of(record_id))
    for entry in running.client.show(record_id).entries:
        running.dispatch.client.zadd(index, {entry.key(record_id): 0})
