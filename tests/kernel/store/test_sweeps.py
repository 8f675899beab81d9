"""One run of a sweep begins in each half period, and families are pruned in their turn."""

from __future__ import annotations

from interlock.kernel.record import RecordId
from interlock.kernel.store.indexes import BUSY_MS
from interlock.kernel.store.scripts import read
from tests.kernel.store.kernel_at_a_fixed_time import World

PERIOD_MS = 10_000


def begins(world: World, name: str = "orphans") -> bool:
    return world.indexes.begin_sweep(name, PERIOD_MS)


def test_a_sweep_begins_once_in_half_a_period(world: World) -> None:
    assert begins(world)
    assert not begins(world)
    world.later(PERIOD_MS // 2 - 1)
    assert not begins(world)
    world.later(1)
    assert begins(world)


def test_when_a_run_of_a_sweep_ended_last_is_noted(world: World) -> None:
    assert begins(world)
    assert world.indexes.last_sweeps() == {}
    world.indexes.count_sweep("orphans", {})
    world.later(PERIOD_MS)
    world.indexes.count_sweep("orphans", {"publish": 1})

    assert world.indexes.last_sweeps() == {"orphans": world.now}


def test_sweeps_of_different_names_do_not_hold_each_other_up(world: World) -> None:
    assert begins(world)
    assert begins(world, "stalls")


def test_a_clock_that_was_set_back_stops_no_sweep(world: World) -> None:
    assert begins(world)
    world.later(-1)

    assert begins(world)


def test_a_family_that_cannot_be_pruned_yet_is_tried_again_after_a_while(world: World) -> None:
    world.create("r")
    world.fire("r", "cancel")
    world.later(1_000)
    world.indexes.postpone(RecordId("r"), 400)

    assert world.indexes.ended(world.partition(), world.now - 401 + BUSY_MS, 10) == []
    assert world.indexes.ended(world.partition(), world.now - 400 + BUSY_MS, 10) == ["r"]


def test_a_family_that_was_pruned_meanwhile_does_not_come_back(world: World) -> None:
    world.indexes.postpone(RecordId("r"), 0)

    assert read(world.client, "EXISTS", world.keys.ended_index(world.partition())) == 0
