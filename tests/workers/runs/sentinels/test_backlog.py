"""Of too many waiting calls the oldest become one; what is given up is counted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from interlock.workers.runs.sentinels.backlog import CALLS_MAX, MERGED_EVENTS_MAX, Backlog
from interlock.workers.runs.sentinels.strategy import Batch
from interlock.workers.runs.sentinels.trigger import Event


def batch(first: int, size: int = 1) -> Batch:
    return tuple(Event("e", first + place, {}) for place in range(size))


def all_of(backlog: Backlog) -> list[list[int]]:
    found = []
    while (taken := backlog.take()) is not None:
        found.append([event.at_ms for event in taken])
    return found


def test_calls_wait_in_their_order() -> None:
    backlog = Backlog()
    for place in range(CALLS_MAX):
        backlog.add(batch(place))

    assert all_of(backlog) == [[place] for place in range(CALLS_MAX)]
    assert (backlog.merged, backlog.left_out) == (0, 0)


def test_beyond_the_bound_the_oldest_join_the_next_call() -> None:
    backlog = Backlog()
    for place in range(CALLS_MAX + 2):
        backlog.add(batch(place))

    assert len(backlog) == CALLS_MAX
    assert all_of(backlog)[:2] == [[0, 1, 2], [3]]
    assert (backlog.merged, backlog.left_out) == (3, 0)


def test_a_call_that_would_grow_without_end_loses_its_oldest_events_and_says_so() -> None:
    backlog = Backlog()
    backlog.add(batch(0, MERGED_EVENTS_MAX))
    for place in range(CALLS_MAX):
        backlog.add(batch(MERGED_EVENTS_MAX + place))

    first = all_of(backlog)[0]
    assert (first[0], len(first)) == (1, MERGED_EVENTS_MAX)
    assert backlog.left_out == 1


def test_what_is_given_up_is_counted() -> None:
    backlog = Backlog()
    backlog.add(batch(0, 3))
    backlog.add(batch(3, 2))

    backlog.give_up()

    assert (len(backlog), backlog.left_out) == (0, 5)


@given(st.lists(st.integers(1, 4), max_size=60), st.integers(0, 60))
def test_no_event_is_lost_below_the_bound_of_one_call(sizes: list[int], taken: int) -> None:
    backlog, told, handed = Backlog(), 0, list[int]()
    for place, size in enumerate([1] * (CALLS_MAX - 5) + sizes):
        backlog.add(batch(told, size))
        told += size
        if place >= CALLS_MAX - taken:
            handed += [event.at_ms for event in backlog.take() or ()]
    handed += [place for places in all_of(backlog) for place in places]

    assert handed == list(range(told))
    assert backlog.left_out == 0
