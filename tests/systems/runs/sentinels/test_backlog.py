"""Of too many waiting batches the oldest are merged, and dropped events are counted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from interlock.systems.runs.sentinels.call_timing import (
    CALLS_MAX,
    MERGED_EVENTS_MAX,
    Backlog,
    Batch,
)
from interlock.systems.runs.sentinels.trigger import SentinelEvent


def batch(first: int, size: int = 1) -> Batch:
    return tuple(SentinelEvent("e", first + number, {}) for number in range(size))


def all_of(backlog: Backlog) -> list[list[int]]:
    found = []
    while (taken := backlog.take()) is not None:
        found.append([event.at_ms for event in taken])
    return found


def test_calls_wait_in_their_order() -> None:
    backlog = Backlog()
    for number in range(CALLS_MAX):
        backlog.add(batch(number))

    assert all_of(backlog) == [[number] for number in range(CALLS_MAX)]
    assert (backlog.merged, backlog.left_out) == (0, 0)


def test_beyond_the_bound_the_oldest_join_the_next_call() -> None:
    backlog = Backlog()
    for number in range(CALLS_MAX + 2):
        backlog.add(batch(number))

    assert len(backlog) == CALLS_MAX
    assert all_of(backlog)[:2] == [[0, 1, 2], [3]]
    assert (backlog.merged, backlog.left_out) == (3, 0)


def test_a_call_that_would_grow_without_end_loses_its_oldest_events_and_says_so() -> None:
    backlog = Backlog()
    backlog.add(batch(0, MERGED_EVENTS_MAX))
    for number in range(CALLS_MAX):
        backlog.add(batch(MERGED_EVENTS_MAX + number))

    first = all_of(backlog)[0]
    assert (first[0], len(first)) == (1, MERGED_EVENTS_MAX)
    assert backlog.left_out == 1


def test_what_is_given_up_is_counted() -> None:
    backlog = Backlog()
    backlog.add(batch(0, 3))
    backlog.add(batch(3, 2))

    backlog.drop_all()

    assert (len(backlog), backlog.left_out) == (0, 5)


@given(st.lists(st.integers(1, 4), max_size=60), st.integers(0, 60))
def test_no_event_is_lost_below_the_bound_of_one_call(sizes: list[int], taken: int) -> None:
    backlog, added, taken_events = Backlog(), 0, list[int]()
    for number, size in enumerate([1] * (CALLS_MAX - 5) + sizes):
        backlog.add(batch(added, size))
        added += size
        if number >= CALLS_MAX - taken:
            taken_events += [event.at_ms for event in backlog.take() or ()]
    taken_events += [number for numbers in all_of(backlog) for number in numbers]

    assert taken_events == list(range(added))
    assert backlog.left_out == 0
