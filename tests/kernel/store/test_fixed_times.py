"""Timers that count from the creation, or are due at a time of the data."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.kernel.record import partition_of
from interlock.kernel.store.clocks import Clocks, Jump
from interlock.kernel.timer import Timer
from tests.kernel.store.kernel_at_a_fixed_time import World
from tests.kernel.store.machines_timed import EXPIRY_MS, PATIENCE_MS
from tests.kernel.store.tables import T

HOURS_MS = 2 * 3_600_000


def due_at(world: World, name: str) -> int:
    timer = world.timer(name)
    assert timer is not None
    return timer.due_at


def polled(world: World) -> dict[str, str]:
    return {name: timer.status for name, timer in world.poll_timers("r").items()}


def test_a_timer_since_the_creation_is_due_at_the_same_time_in_every_state(world: World) -> None:
    created = world.now
    world.create("r", machine="timed")
    assert due_at(world, "expiry") == created + EXPIRY_MS
    world.later(30_000)

    world.fire("r", "ask")

    assert due_at(world, "expiry") == created + EXPIRY_MS
    assert due_at(world, "patience") == world.now + PATIENCE_MS
    world.later(EXPIRY_MS - 30_000)
    assert polled(world) == {"expiry": "due", "patience": "due", "reminder": "due"}


def test_it_is_due_at_once_where_the_creation_is_long_past(world: World) -> None:
    world.create("r", machine="timed")
    world.later(2 * EXPIRY_MS)

    world.fire("r", "ask")

    assert polled(world) == {"expiry": "due"}
    found = world.timer("expiry")
    assert found is not None
    warrant = world.due(world.indexes.poll_timers(world.partition(), ["r:expiry"])[0])
    world.fire("r", "expire", warrant=warrant)
    assert world.record().state == "expired"


def test_a_timer_is_due_at_a_time_of_the_data(world: World) -> None:
    at_ms = world.now + 70_000
    world.create("r", {"due_at": at_ms}, machine="timed")
    assert due_at(world, "date") == at_ms
    assert polled(world) == {}

    world.later(70_000)

    assert polled(world) == {"date": "due"}


def test_data_without_a_time_sets_no_timer(world: World) -> None:
    world.create("r", machine="timed")

    assert world.timer("date") is None


def test_a_fixed_time_goes_on_while_the_record_is_paused(world: World) -> None:
    at_ms = world.now + 70_000
    world.create("r", {"due_at": at_ms}, machine="timed")
    expires = due_at(world, "expiry")
    world.later(10_000)
    world.flag("pause")
    world.later(80_000)
    assert polled(world) == {}, "nothing is due while it is paused"

    world.flag("resume")

    assert (due_at(world, "date"), due_at(world, "expiry")) == (at_ms, expires)
    assert polled(world) == {"date": "due"}


def test_a_state_that_is_entered_while_it_is_paused_has_its_fixed_times_afterwards(
    world: World,
) -> None:
    created = world.now
    world.create("r", machine="timed")
    world.flag("pause")
    world.later(50_000)
    world.fire("r", "ask")
    world.later(5_000)

    world.flag("resume")

    assert due_at(world, "expiry") == created + EXPIRY_MS
    assert due_at(world, "patience") == world.now + PATIENCE_MS, "it kept what was left"
    world.flag("pause")
    world.flag("resume")
    assert due_at(world, "expiry") == created + EXPIRY_MS


@pytest.mark.parametrize("ms", [HOURS_MS, -HOURS_MS])
def test_a_fixed_time_stays_when_the_clock_is_set(world: World, ms: int) -> None:
    world.create("r", {"due_at": world.now + 70_000}, machine="timed")
    before = world.record().timers
    old_until, partition = world.now, partition_of("r")
    world.later(ms)
    clocks = Clocks(world.client, world.keys)

    assert clocks.move(partition, Jump(ms, old_until, 0), clocks.timers(partition), [])

    assert world.record().timers == before


NO_TIMES: tuple[Any, ...] = ("soon", True, float("nan"), 10**15, [1])


@pytest.mark.parametrize("delay", NO_TIMES)
def test_a_delay_that_is_no_time_is_refused(delay: Any) -> None:
    with pytest.raises(TypeError, match="the timer date takes a number of ms, not"):
        Timer("date", lambda _: delay, T.FAIL).due({})
