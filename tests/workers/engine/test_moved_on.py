"""What a sweep has polled may have moved on before it acts: then it changes nothing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NoReturn, cast

import pytest
import redis

from interlock.kernel.errors import StoreDownError, StoreError
from interlock.kernel.record import partition_of
from interlock.kernel.store.clocks import Pass
from interlock.kernel.store.leases import Lease
from interlock.workers.engine import effect_ends
from interlock.workers.engine.sweeps import orphans, stalls
from interlock.workers.engine.work import EffectWork
from interlock.workers.gateways.server import EmbeddedServer
from tests.end_to_end.deployment import thread
from tests.end_to_end.engine.test_stranding import due
from tests.sweeping import sweeping
from tests.systems.threads.threads import bring
from tests.waiting import until
from tests.workers.engine.running import THREAD, Running, settings_for
from tests.workers.engine.test_isolation import lose
from tests.workers.engine.test_prune import of_one_partition
from tests.workers.engine.test_sweeper import hurry


@pytest.fixture
def running(server: EmbeddedServer, prefix: str) -> Running:
    return Running(settings_for(server.url, prefix, INTERLOCK_POLL_S="3600"))


@pytest.fixture
def after(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any, str, Callable[[], object]], None]:
    """Return a function that lets something happen once after the next call of a method."""

    def patch(owner: Any, name: str, happens: Callable[[], object]) -> None:
        method = getattr(owner, name)

        def call(*given: Any, **more: Any) -> Any:
            monkeypatch.setattr(owner, name, method)
            answer = method(*given, **more)
            happens()
            return answer

        monkeypatch.setattr(owner, name, call)

    return patch


def use_up(running: Running, record_id: str) -> None:
    """Use up the attempts of the only effect of a record, and make it due."""
    while (entry := running.entry(record_id)).attempts < entry.attempts_max:
        effect = running.dispatch.effect(THREAD.name, entry.name)
        key = entry.key(record_id)
        lease = running.dispatch.leases.claim(
            key, effect, nonce="n", holder="test", schema=THREAD.schema
        )
        assert isinstance(lease, Lease)
        running.dispatch.leases.release(lease, delay_ms=0, counted=True)
    hurry(running, record_id)


# --- timers ------------------------------------------------------------------------------------


def expiring(running: Running) -> None:
    """Create a thread whose time to begin it is over."""
    payload = {**thread("jot"), "hold": True, "expires_s": 3_600}
    running.client.submit(payload, machine="thread", id="one")
    due(running.dispatch, cast(redis.Redis, running.dispatch.client), "one", "expiry")


def begin(running: Running) -> None:
    running.client.decide("one", "begin", {}, proposal=running.client.show("one").proposal)


def end(running: Running) -> None:
    running.client.cancel("one")


def forget(running: Running) -> None:
    """Delete a record, as a prune does."""
    running.dispatch.client.delete(running.dispatch.keys.record("one"))


@pytest.mark.parametrize(
    ("owner", "method", "happens", "status"),
    [
        ("indexes", "poll_timers", begin, "moved on"),
        ("views", "record", begin, "moved on"),
        ("views", "record", end, "moved on"),
        ("indexes", "poll_timers", forget, "gone"),
    ],
)
def test_a_timer_whose_record_moves_on_fires_nothing(
    running: Running,
    after: Callable[[Any, str, Callable[[], object]], None],
    owner: str,
    method: str,
    happens: Callable[[Running], None],
    status: str,
) -> None:
    expiring(running)
    after(getattr(running.dispatch, owner), method, lambda: happens(running))

    assert stalls.run(sweeping(running.dispatch), partition_of("one")) == Counter({status: 1})

    if status == "moved on":
        moved_to = "dismissed" if happens is end else "awaiting_inference"
        assert running.client.show("one").state == moved_to


def test_a_timer_that_is_not_due_yet_fires_nothing(running: Running) -> None:
    payload = {**thread("jot"), "hold": True, "expires_s": 3_600}
    running.client.submit(payload, machine="thread", id="one")
    timers = running.dispatch.keys.timers(partition_of("one"))
    running.dispatch.client.zadd(timers, {"one:expiry": 1})

    assert stalls.run(sweeping(running.dispatch), partition_of("one")) == Counter(later=1)

    assert running.client.show("one").state == "proposed"


def test_a_person_is_reminded_of_a_card(running: Running) -> None:
    bring(running.client, "one", "awaiting_confirmation")
    due(running.dispatch, cast(redis.Redis, running.dispatch.client), "one", "reminder")

    assert stalls.run(sweeping(running.dispatch), partition_of("one")) == Counter(reminded=1)


def test_a_person_is_reminded_of_an_effect_that_is_quarantined(running: Running) -> None:
    bring(running.client, "one", "awaiting_confirmation")
    assert running.entry("one").name == "resolution"
    use_up(running, "one")
    assert orphans.run(sweeping(running.dispatch), partition_of("one"))["quarantined"] == 1
    due(running.dispatch, cast(redis.Redis, running.dispatch.client), "one", "quarantine")

    assert stalls.run(sweeping(running.dispatch), partition_of("one")) == Counter(reminded=1)


# --- effects -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("owner", "method"), [("indexes", "poll_effects"), ("views", "record")])
def test_an_effect_whose_record_moves_on_fires_nothing(
    running: Running,
    after: Callable[[Any, str, Callable[[], object]], None],
    owner: str,
    method: str,
) -> None:
    running.client.submit(thread("jot"), machine="thread", id="one")
    use_up(running, "one")
    after(getattr(running.dispatch, owner), method, lambda: running.client.cancel("one"))

    assert orphans.run(sweeping(running.dispatch), partition_of("one")) == Counter({"moved on": 1})

    assert running.client.show("one").state == "dismissed"


def test_an_effect_that_is_given_up_says_how_often_it_was_tried_and_how_it_failed_last(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: EffectWork) -> NoReturn:
        raise ValueError("no paper")

    monkeypatch.setattr(effect_ends, "retry_delay_ms", lambda *_: 0)
    record = running.approved("jot")
    attempts = record.entries[0].attempts_max
    for _ in range(attempts):
        running.perform("one", fail)
    hurry(running, "one")

    assert orphans.run(sweeping(running.dispatch), partition_of("one")) == Counter(exhausted=1)

    failure = running.client.show("one").data["failure"]
    detail = f"given up after {attempts} attempts; the last one: ValueError: no paper"
    assert failure["code"] == "exhausted"
    assert failure["detail"].startswith(f"{detail} ({__file__}, line ")


@pytest.mark.parametrize(
    ("is_lost", "more"),
    [
        (False, ""),
        (True, ", during 1 of which its worker died; the last one: its worker was lost"),
    ],
)
@pytest.mark.parametrize("attempts_max", [2, 3, 9])
def test_an_effect_that_is_given_up_says_how_often_its_worker_died(
    running: Running,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_lost: bool,
    more: str,
    attempts_max: int,
) -> None:
    running.approved("jot")
    if is_lost:
        lose(running, "one")
    use_up(running, "one")
    # The table that finds it given up may be another version than the one that it is owed by.
    effect = running.dispatch.effect
    monkeypatch.setattr(
        running.dispatch,
        "effect",
        lambda *names: replace(effect(*names), attempts_max=attempts_max),
    )

    assert orphans.run(sweeping(running.dispatch), partition_of("one")) == Counter(exhausted=1)

    detail = running.client.show("one").data["failure"]["detail"]
    assert re.fullmatch(rf"given up after \d+ attempts{more}", detail)


def test_an_effect_that_may_run_once_ends_with_its_worker_and_says_so(running: Running) -> None:
    running.approved("jot_once")
    running.dispatch.leases.claim(
        running.entry("one").key("one"),
        replace(running.dispatch.effect(THREAD.name, "execution"), lease_ms=1, grace_ms=0),
        nonce="gone",
        holder="gone",
        schema=THREAD.schema,
    )

    def crashed() -> bool:
        hurry(running, "one")
        orphans.run(sweeping(running.dispatch), partition_of("one"))
        return running.client.show("one").state != "executing"

    until(crashed, what="its crash is fired")
    assert running.client.show("one").data["failure"]["code"] == "lost_worker"


# --- a store that is away, and damaged entries -------------------------------------------------


def test_a_damaged_effect_keeps_no_other_from_being_published(running: Running) -> None:
    damaged, whole = of_one_partition(2)
    for record_id in (damaged, whole):
        running.client.submit(thread("jot"), machine="thread", id=record_id)
        hurry(running, record_id)
    field = f"e:{running.entry(damaged).suffix}"
    running.dispatch.client.hset(running.dispatch.keys.record(damaged), field, "damaged")

    found = orphans.run(sweeping(running.dispatch), partition_of(whole))

    assert found == Counter(failed=1, published=1)


def test_what_is_no_effect_keeps_no_effect_from_being_published(running: Running) -> None:
    running.client.submit(thread("jot"), machine="thread", id="one")
    hurry(running, "one")
    partition = partition_of("one")
    running.dispatch.client.zadd(running.dispatch.keys.effects(partition), {"garbage": 1})

    found = orphans.run(sweeping(running.dispatch), partition)

    assert found == Counter(failed=1, published=1)


@pytest.mark.parametrize("line", ["damaged", "soon 1 - 0"])
def test_a_damaged_timer_keeps_no_other_from_firing(running: Running, line: str) -> None:
    damaged, whole = of_one_partition(2)
    for record_id in (damaged, whole):
        payload = {**thread("jot"), "hold": True, "expires_s": 1}
        running.client.submit(payload, machine="thread", id=record_id)
    running.dispatch.client.hset(running.dispatch.keys.record(damaged), "t:expiry", line)

    def dismissed() -> bool:
        stalls.run(sweeping(running.dispatch), partition_of(whole))
        return running.dispatch.views.record(whole).state == "dismissed"

    until(dismissed, what="the other timer fires")


def test_a_store_that_is_away_ends_the_sweep_at_once(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    polls = []

    def away(*_: Any, **__: Any) -> Any:
        polls.append(1)
        raise StoreDownError("away")

    for record_id in of_one_partition(2):
        running.client.submit(thread("jot"), machine="thread", id=record_id)
        hurry(running, record_id)
    monkeypatch.setattr(running.dispatch.indexes, "poll_effects", away)

    with pytest.raises(StoreDownError):
        orphans.run(sweeping(running.dispatch), partition_of(record_id))
    assert len(polls) == 1


def test_a_store_that_goes_away_while_effects_are_polled_alone_ends_the_sweep(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[StoreError] = [StoreError("one is corrupt"), StoreDownError("away")]

    def polled(*_: Any, **__: Any) -> Any:
        raise answers.pop(0)

    for record_id in of_one_partition(2):
        running.client.submit(thread("jot"), machine="thread", id=record_id)
        hurry(running, record_id)
    monkeypatch.setattr(running.dispatch.indexes, "poll_effects", polled)

    with pytest.raises(StoreDownError):
        orphans.run(sweeping(running.dispatch), partition_of(record_id))


def test_the_sweep_notes_that_it_passes_all_partitions(running: Running) -> None:
    def note() -> list[Pass]:
        return running.dispatch.indexes.note_pass(period_ms=1_000, lease_ms=1_000)

    before_ms = note()[0].now_ms
    until(lambda: running.dispatch.views.now_ms() > before_ms, what="time passes")

    orphans.due(sweeping(running.dispatch))

    assert all(each.last_ms > before_ms for each in note())
