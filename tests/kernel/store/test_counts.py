"""Counts of lists: what the list has, from the indexes or from a bounded number of records."""

from __future__ import annotations

from dataclasses import replace

import pytest

from interlock.kernel.errors import CallError
from interlock.kernel.store import counts
from interlock.kernel.store.counts import RecordCounts, count_records
from interlock.kernel.store.listings import Filter
from tests.kernel.store.kernel_at_a_fixed_time import World
from tests.round_trips import round_trips

IDLE, WORKING = ("life", "idle"), ("life", "working")
IN_STATES = Filter(["life"], states=[IDLE, WORKING])


def three_lives(world: World) -> None:
    for of in ("r", "s", "other"):
        world.create(of, {"title": "Pay payroll"})
        world.later(10)
    world.fire("s", "begin")


def wanted(world: World) -> list[tuple[Filter, dict[str, int], int]]:
    """Return filters, what they count of three lives, and in how many round trips."""
    both, one_idle = {"idle": 2, "working": 1}, {"idle": 1}
    first = (world.record("r").created_ms, world.record("r").created_ms)
    return [
        (IN_STATES, both, 1),
        (replace(IN_STATES, since_ms=first), one_idle, 2),
        (Filter(["life"], created_ms=first), one_idle, 2),
        (Filter(["life"], text="pay"), both, 2),
        (Filter(["life"], text="pay", states=[WORKING]), {"working": 1}, 2),
        (Filter(["life"], id_prefix="o"), one_idle, 2),
        (Filter(["life"], parent="r"), {}, 1),
    ]


def test_a_count_has_the_records_of_the_list_by_state(world: World) -> None:
    three_lives(world)

    for filter_, states, _ in wanted(world):
        assert count_records(world.listings, filter_) == RecordCounts({"life": states})
    with pytest.raises(CallError, match="has no word to look for"):
        count_records(world.listings, replace(IN_STATES, text="--"))


def test_a_count_takes_few_round_trips(world: World) -> None:
    three_lives(world)

    for filter_, _, trips in wanted(world):
        count_records(world.listings, filter_)  # the server gets the scripts with their first call
        with round_trips() as sent:
            count_records(world.listings, filter_)
            assert sent() == trips, filter_


def test_a_count_reads_a_bounded_number_of_records_and_says_that_there_are_more(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    three_lives(world)
    monkeypatch.setattr(counts, "READ_MAX", 1)
    for maximum, number, more in ((2, 2, True), (3, 3, False), (4, 3, False)):
        monkeypatch.setattr(counts, "COUNT_MAX", maximum)
        found = count_records(world.listings, Filter(["life"], id_prefix=""))
        assert (sum(found.machines["life"].values()), found.more) == (number, more)
