"""A clock of the store that was set: due times move with it, and lost work is found in a lease."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from interlock.kernel.record import RecordId, partition_of
from interlock.kernel.store.clocks import Clocks, Jump, LeasedFor
from tests.kernel.store.kernel_at_a_fixed_time import World
from tests.kernel.store.tables import LEASE_MS

HOURS_MS = 2 * 3_600_000


def jump(world: World, ms: int, *, moves: int = 0) -> Jump:
    """Set the clock of the store, and return what a pass sees of that."""
    old_until = world.now
    world.later(ms)
    return Jump(ms, old_until, moves)


def move(world: World, seen: Jump, *, timers: Collection[str] = ()) -> bool:
    """Move the times of the record r, and of these timers, as a pass that has listed them."""
    clocks, partition = Clocks(world.client, world.keys), partition_of("r")
    leased = [LeasedFor(RecordId("r"), one.suffix, LEASE_MS) for one in world.record().entries]
    return clocks.move(partition, seen, [*clocks.timers(partition), *timers], leased)


@pytest.mark.parametrize("ms", [HOURS_MS, -HOURS_MS])
def test_a_timer_keeps_the_time_that_was_left(world: World, ms: int) -> None:
    world.at("working")
    timer = world.timer("stall")
    assert timer is not None
    left_ms = timer.due_at - world.now

    assert move(world, jump(world, ms))

    moved = world.timer("stall")
    assert moved is not None
    assert moved.due_at - world.now == left_ms
    assert world.poll_timers("r") == {}, "it is due no earlier"
    world.later(left_ms)
    assert world.poll_timers("r")["stall"].status == "due"


@pytest.mark.parametrize("ms", [HOURS_MS, -HOURS_MS])
def test_a_timer_that_was_set_by_the_new_clock_stays(world: World, ms: int) -> None:
    world.create("r")
    seen = jump(world, ms)
    world.fire("r", "begin")
    before = world.timer("stall")

    assert move(world, seen)

    assert world.timer("stall") == before


def test_the_timer_of_a_paused_record_keeps_what_was_left(world: World) -> None:
    world.at("working")
    world.flag("pause")
    before = world.timer("stall")

    assert move(world, jump(world, -HOURS_MS), timers=["r:stall"])

    assert world.timer("stall") == before
    assert world.poll_timers("r") == {}


def test_due_times_are_moved_once_however_many_processes_see_it(world: World) -> None:
    world.at("working")
    seen = jump(world, HOURS_MS)
    assert move(world, seen)
    moved = world.timer("stall")

    assert not move(world, seen)

    assert world.timer("stall") == moved
    assert Clocks(world.client, world.keys).last_jump() == (HOURS_MS, world.now)
    assert move(world, jump(world, HOURS_MS, moves=1)), "the clock was set again"
    assert not move(world, jump(world, HOURS_MS, moves=1))
    assert move(world, jump(world, HOURS_MS, moves=2))


def test_a_partition_may_have_more_timers_than_lua_unpacks(world: World) -> None:
    world.at("working")
    seen = jump(world, HOURS_MS)

    assert move(world, seen, timers=[f"r:nap{n}" for n in range(10_000)])


def test_what_has_gone_since_it_was_listed_is_left_out(world: World) -> None:
    record = world.at("working")
    gone = LeasedFor(record.id, "9.0:x", LEASE_MS)
    seen = jump(world, -HOURS_MS)
    clocks = Clocks(world.client, world.keys)

    assert clocks.move(partition_of("r"), seen, ["r:nap"], [gone])

    assert world.timer("nap") is None
    assert [entry.name for entry in world.record().entries] == ["work"]


def test_an_effect_that_nobody_has_is_found_at_once_by_a_clock_that_was_set_back(
    world: World,
) -> None:
    world.at("working")
    seen = jump(world, -HOURS_MS)
    assert world.poll_status(world.key()) == "not due"

    move(world, seen)

    assert world.score(world.key()) == world.now
    assert world.poll_status(world.key()) == "publish"


def test_a_lease_that_nobody_renews_ends_within_one_lease_of_a_clock_that_was_set_back(
    world: World,
) -> None:
    world.at("working")
    world.claim()
    move(world, jump(world, -HOURS_MS))
    assert world.entry().lease_until == world.now + LEASE_MS

    world.later(LEASE_MS)

    assert world.poll_status(world.key()) == "publish"


def test_a_lease_that_is_renewed_stays_with_its_holder_when_the_clock_was_set_back(
    world: World,
) -> None:
    world.at("working")
    lease = world.claim()
    seen = jump(world, -HOURS_MS)
    world.renew(lease)
    move(world, seen)
    world.later(LEASE_MS - 1)
    assert world.poll_status(world.key()) == "later"

    world.renew(lease)
    world.later(LEASE_MS - 1)

    assert world.poll_status(world.key()) == "not due"


def test_an_effect_that_is_to_be_tried_later_waits_no_longer_because_a_clock_was_set_back(
    world: World,
) -> None:
    world.at("working")
    world.leases.release(world.claim(), counted=True, delay_ms=60_000)
    move(world, jump(world, -HOURS_MS))
    assert world.poll_status(world.key()) == "later"
    world.later(60_000)

    assert world.poll_status(world.key()) == "publish"


@pytest.mark.parametrize("ms", [HOURS_MS, -HOURS_MS])
def test_a_holder_that_must_stop_keeps_its_time_to_stop(world: World, ms: int) -> None:
    world.at("building")
    world.claim("build")
    world.fire("r", "revise")
    kill_by = world.entry("build").kill_by
    left_ms = kill_by - world.now

    move(world, jump(world, ms))

    assert 0 < world.entry("build").kill_by - world.now <= left_ms
    assert ms < 0 or world.entry("build").kill_by - world.now == left_ms


def test_a_lost_holder_keeps_its_time_to_stop_by_a_clock_that_was_set_ahead(world: World) -> None:
    world.at("building")
    world.claim("build")
    world.later(LEASE_MS)
    assert world.poll_status(world.key("build")) == "later"
    assert world.state_of("build") == "lapsed"
    left_ms = world.entry("build").kill_by - world.now
    assert left_ms > 0

    move(world, jump(world, HOURS_MS))

    assert world.entry("build").kill_by - world.now == left_ms


def test_a_holder_that_is_lost_at_a_clock_that_was_set_ahead_stops_nobody_for_long(
    world: World,
) -> None:
    world.at("building")
    world.claim("build")
    move(world, jump(world, HOURS_MS))

    assert world.poll_status(world.key("build")) == "publish"


def test_a_clock_that_was_set_back_keeps_the_gate_closed_for_no_longer_than_a_lease(
    world: World,
) -> None:
    def is_open() -> bool:
        return world.indexes.identify_server(
            7, run_id="two", passing=True, period_ms=1_000, lease_ms=LEASE_MS
        ).gate_open

    world.indexes.identify_server(7, run_id="one", passing=True, period_ms=1_000, lease_ms=LEASE_MS)
    assert not is_open(), "another server"
    world.later(-HOURS_MS)
    assert not is_open()

    world.later(LEASE_MS)

    assert is_open()
