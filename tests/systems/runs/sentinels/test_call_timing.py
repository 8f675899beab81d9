"""Pending events become a batch when their strategy says so: once, in order, none lost."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.systems.runs.sentinels.call_timing import (
    MATCHES_MAX,
    Batch,
    BatchingKind,
    BatchingStrategy,
    PendingEvents,
)
from interlock.systems.runs.sentinels.trigger import SentinelEvent

STARTED_MS = 500.0


@dataclass
class Sentinel:
    """The pending events of a sentinel over time; each event has its number as its time."""

    strategy: BatchingStrategy
    pending: PendingEvents = field(default_factory=lambda: PendingEvents(STARTED_MS))
    events: int = 0

    def match(self, now_ms: float, *, events: int = 1) -> list[Batch]:
        """Add the next match, of so many events."""
        numbers = range(self.events, self.events + events)
        self.events += events
        match = tuple(SentinelEvent("e", number, {}) for number in numbers)
        self.pending, batches = self.strategy.add(self.pending, match, now_ms)
        return batches

    def wait(self, now_ms: float) -> list[Batch]:
        """Let time pass."""
        self.pending, batches = self.strategy.take_due(self.pending, now_ms)
        return batches


def numbers_of(batches: list[Batch]) -> list[list[int]]:
    return [[event.at_ms for event in batch] for batch in batches]


# Times in seconds after the start; at "+" comes a match, at "." only time passes.
# fmt: off
TABLE = [
    (BatchingKind.IMMEDIATE,  0,   "0+ 0+ 7+",                 [[0], [1], [2]]),
    (BatchingKind.COUNT,      1,   "0+ 1+",                    [[0], [1]]),
    (BatchingKind.COUNT,      3,   "0+ 0+ 9. 9+ 9+ 9+",        [[0, 1, 2]]),
    (BatchingKind.COUNT,      2,   "0+ 1+ 2+ 3+",              [[0, 1], [2, 3]]),
    (BatchingKind.DEBOUNCE_S, 5,   "0+ 4.9.",                  []),
    (BatchingKind.DEBOUNCE_S, 5,   "0+ 5.",                    [[0]]),
    (BatchingKind.DEBOUNCE_S, 5,   "0+ 4+ 8+ 12. 13.",         [[0, 1, 2]]),
    (BatchingKind.DEBOUNCE_S, 5,   "0+ 5+ 6.",                 [[0]]),
    (BatchingKind.DEBOUNCE_S, 5,   "0+ 99+ 104.",              [[0], [1]]),
    (BatchingKind.DEBOUNCE_S, 0.5, "0+ 0.4+ 0.9.",             [[0, 1]]),
    (BatchingKind.WINDOW_S,   10,  "1+ 9+ 9.9.",               []),
    (BatchingKind.WINDOW_S,   10,  "1+ 9+ 10.",                [[0, 1]]),
    (BatchingKind.WINDOW_S,   10,  "9+ 10+ 11+ 20.",           [[0], [1, 2]]),
    (BatchingKind.WINDOW_S,   10,  "10. 20. 30. 35+ 39. 40.",  [[0]]),
    (BatchingKind.WINDOW_S,   10,  "25+ 30+ 39. 40.",          [[0], [1]]),
]
# fmt: on


@pytest.mark.parametrize(("kind", "limit", "course", "calls"), TABLE)
def test_a_strategy_says_when_to_call(
    kind: BatchingKind, limit: float, course: str, calls: list[list[int]]
) -> None:
    sentinel = Sentinel(BatchingStrategy(kind, limit))
    found: list[list[int]] = []
    for moment in course.split():
        at_ms = STARTED_MS + float(moment[:-1]) * 1_000
        found += numbers_of(sentinel.match(at_ms) if moment[-1] == "+" else sentinel.wait(at_ms))

    assert found == calls


def test_a_strategy_counts_matches_and_a_batch_has_all_their_events() -> None:
    sentinel = Sentinel(BatchingStrategy(BatchingKind.COUNT, 2))

    assert numbers_of(sentinel.match(0, events=2)) == []
    assert numbers_of(sentinel.match(0, events=3)) == [[0, 1, 2, 3, 4]]


@pytest.mark.parametrize("kind", [BatchingKind.DEBOUNCE_S, BatchingKind.WINDOW_S])
def test_an_endless_stream_becomes_several_batches(kind: BatchingKind) -> None:
    sentinel = Sentinel(BatchingStrategy(kind, 300))

    batches = [batch for _ in range(2 * MATCHES_MAX) for batch in sentinel.match(STARTED_MS)]

    assert [len(batch) for batch in batches] == [MATCHES_MAX, MATCHES_MAX]


@pytest.mark.parametrize("kind", BatchingKind)
def test_without_events_nothing_is_due(kind: BatchingKind) -> None:
    assert BatchingStrategy(kind, 1).due_ms(PendingEvents(0)) is None


strategies = st.one_of(
    st.just(BatchingStrategy(BatchingKind.IMMEDIATE)),
    st.builds(BatchingStrategy, st.just(BatchingKind.COUNT), st.integers(1, 6)),
    st.builds(
        BatchingStrategy,
        st.sampled_from([BatchingKind.DEBOUNCE_S, BatchingKind.WINDOW_S]),
        st.floats(0.001, 20),
    ),
)
moments = st.lists(st.tuples(st.floats(0, 15_000), st.integers(0, 3)), max_size=40)


@given(strategies, moments)
def test_no_event_is_lost_or_repeated_and_the_order_stays(
    strategy: BatchingStrategy, moments: list[tuple[float, int]]
) -> None:
    sentinel, now_ms = Sentinel(strategy), STARTED_MS
    batches: list[Batch] = []
    for passed_ms, events in moments:
        now_ms += passed_ms
        batches += sentinel.match(now_ms, events=events) if events else sentinel.wait(now_ms)
        due_ms = strategy.due_ms(sentinel.pending)
        assert due_ms is None or due_ms > now_ms, "due events became a batch"
    assert all(batches), "no call without an event"

    taken = [event.at_ms for batch in [*batches, sentinel.pending.events] for event in batch]
    assert taken == list(range(sentinel.events))
