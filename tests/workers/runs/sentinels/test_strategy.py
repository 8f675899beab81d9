"""What accumulates is handed over when its strategy says so: once, in order, nothing lost."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.workers.runs.sentinels.strategy import MATCHES_MAX, Batch, Heap, Kind, Strategy
from interlock.workers.runs.sentinels.trigger import Event

BEGAN_MS = 500.0


@dataclass
class Sentinel:
    """A heap over time; a call is the places of its events, with the time it was handed over at."""

    strategy: Strategy
    heap: Heap = field(default_factory=lambda: Heap(BEGAN_MS))
    told: int = 0

    def tell(self, now_ms: float, *, events: int = 1) -> list[Batch]:
        """Give it the match that comes next."""
        places = range(self.told, self.told + events)
        self.told += events
        match = tuple(Event("e", place, {}) for place in places)
        self.heap, batches = self.strategy.gather(self.heap, match, now_ms)
        return batches

    def wait(self, now_ms: float) -> list[Batch]:
        """Let time pass."""
        self.heap, batches = self.strategy.lapse(self.heap, now_ms)
        return batches


def places(batches: list[Batch]) -> list[list[int]]:
    return [[event.at_ms for event in batch] for batch in batches]


# Times in seconds after the beginning; "+" is a match, "." only a look at the clock.
# fmt: off
TABLE = [
    (Kind.IMMEDIATE,  0,   "0+ 0+ 7+",                 [[0], [1], [2]]),
    (Kind.COUNT,      1,   "0+ 1+",                    [[0], [1]]),
    (Kind.COUNT,      3,   "0+ 0+ 9. 9+ 9+ 9+",        [[0, 1, 2]]),
    (Kind.COUNT,      2,   "0+ 1+ 2+ 3+",              [[0, 1], [2, 3]]),
    (Kind.DEBOUNCE_S, 5,   "0+ 4.9.",                  []),
    (Kind.DEBOUNCE_S, 5,   "0+ 5.",                    [[0]]),
    (Kind.DEBOUNCE_S, 5,   "0+ 4+ 8+ 12. 13.",         [[0, 1, 2]]),
    (Kind.DEBOUNCE_S, 5,   "0+ 5+ 6.",                 [[0]]),
    (Kind.DEBOUNCE_S, 5,   "0+ 99+ 104.",              [[0], [1]]),
    (Kind.DEBOUNCE_S, 0.5, "0+ 0.4+ 0.9.",             [[0, 1]]),
    (Kind.WINDOW_S,   10,  "1+ 9+ 9.9.",               []),
    (Kind.WINDOW_S,   10,  "1+ 9+ 10.",                [[0, 1]]),
    (Kind.WINDOW_S,   10,  "9+ 10+ 11+ 20.",           [[0], [1, 2]]),
    (Kind.WINDOW_S,   10,  "10. 20. 30. 35+ 39. 40.",  [[0]]),
    (Kind.WINDOW_S,   10,  "25+ 30+ 39. 40.",          [[0], [1]]),
]
# fmt: on


@pytest.mark.parametrize(("kind", "limit", "course", "calls"), TABLE)
def test_a_strategy_says_when_to_call(
    kind: Kind, limit: float, course: str, calls: list[list[int]]
) -> None:
    sentinel = Sentinel(Strategy(kind, limit))
    found: list[list[int]] = []
    for moment in course.split():
        at_ms = BEGAN_MS + float(moment[:-1]) * 1_000
        found += places(sentinel.tell(at_ms) if moment[-1] == "+" else sentinel.wait(at_ms))

    assert found == calls


def test_a_strategy_counts_matches_and_hands_over_all_their_events() -> None:
    sentinel = Sentinel(Strategy(Kind.COUNT, 2))

    assert places(sentinel.tell(0, events=2)) == []
    assert places(sentinel.tell(0, events=3)) == [[0, 1, 2, 3, 4]]


@pytest.mark.parametrize("kind", [Kind.DEBOUNCE_S, Kind.WINDOW_S])
def test_an_endless_stream_is_handed_over_in_parts(kind: Kind) -> None:
    sentinel = Sentinel(Strategy(kind, 300))

    batches = [batch for _ in range(2 * MATCHES_MAX) for batch in sentinel.tell(BEGAN_MS)]

    assert [len(batch) for batch in batches] == [MATCHES_MAX, MATCHES_MAX]


@pytest.mark.parametrize("kind", Kind)
def test_nothing_is_due_of_an_empty_heap(kind: Kind) -> None:
    assert Strategy(kind, 1).due_ms(Heap(0)) is None


strategies = st.one_of(
    st.just(Strategy(Kind.IMMEDIATE)),
    st.builds(Strategy, st.just(Kind.COUNT), st.integers(1, 6)),
    st.builds(Strategy, st.sampled_from([Kind.DEBOUNCE_S, Kind.WINDOW_S]), st.floats(0.001, 20)),
)
moments = st.lists(st.tuples(st.floats(0, 15_000), st.integers(0, 3)), max_size=40)


@given(strategies, moments)
def test_no_event_is_lost_or_handed_over_twice_and_the_order_stays(
    strategy: Strategy, moments: list[tuple[float, int]]
) -> None:
    sentinel, now_ms = Sentinel(strategy), BEGAN_MS
    batches: list[Batch] = []
    for passed_ms, events in moments:
        now_ms += passed_ms
        batches += sentinel.tell(now_ms, events=events) if events else sentinel.wait(now_ms)
        due_ms = strategy.due_ms(sentinel.heap)
        assert due_ms is None or due_ms > now_ms, "what is due is handed over"
    assert all(batches), "no call without an event"

    handed = [event.at_ms for batch in [*batches, sentinel.heap.events] for event in batch]
    assert handed == list(range(sentinel.told))
