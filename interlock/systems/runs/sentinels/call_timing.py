"""Decides which matches of a sentinel become the batch of one call, and keeps batches. Pure.

The caller passes the time. Windows follow each other without a gap from the start of observing.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from enum import StrEnum, auto
from typing import TypeAlias, assert_never

from interlock.systems.runs.sentinels.trigger import SentinelEvent

# With this many matches a batch is due at once, even before its debounce or window ends.
MATCHES_MAX = 1_000
_MS = 1_000

Batch: TypeAlias = tuple[SentinelEvent, ...]


class BatchingKind(StrEnum):
    """The kinds of strategies: the condition for which a batch waits."""

    IMMEDIATE = auto()
    DEBOUNCE_S = auto()
    COUNT = auto()
    WINDOW_S = auto()


@dataclass(frozen=True, slots=True)
class PendingEvents:
    """The events since the last batch. Times are ms of one clock that never goes back."""

    started_ms: float
    events: Batch = ()
    matches: int = 0
    first_ms: float = 0
    last_ms: float = 0

    def emptied(self) -> PendingEvents:
        """Return the same without events, after they became a batch."""
        return PendingEvents(self.started_ms)


@dataclass(frozen=True, slots=True)
class BatchingStrategy:
    """A kind of strategy and its limit: seconds or matches; immediate has none."""

    kind: BatchingKind
    limit: float = 0

    def due_ms(self, pending: PendingEvents) -> float | None:
        """Return when the events become a batch if no more come; None is never."""
        if not pending.matches:
            return None
        match self.kind:
            case BatchingKind.IMMEDIATE | BatchingKind.COUNT:
                return None
            case BatchingKind.DEBOUNCE_S:
                return pending.last_ms + self.limit * _MS
            case BatchingKind.WINDOW_S:
                length_ms = self.limit * _MS
                windows = (pending.first_ms - pending.started_ms) // length_ms
                return pending.started_ms + (windows + 1) * length_ms
            case _:
                assert_never(self.kind)

    def take_due(self, pending: PendingEvents, now_ms: float) -> tuple[PendingEvents, list[Batch]]:
        """Return the events that stay pending, and the batch that is due by now, if any."""
        due_ms = self.due_ms(pending)
        if due_ms is None or now_ms < due_ms:
            return pending, []
        return pending.emptied(), [pending.events]

    def add(
        self, pending: PendingEvents, match: Batch, now_ms: float
    ) -> tuple[PendingEvents, list[Batch]]:
        """Add one match; return the events that stay pending, and the batches that are due."""
        pending, batches = self.take_due(pending, now_ms)
        pending = replace(
            pending,
            events=pending.events + match,
            matches=pending.matches + 1,
            first_ms=pending.first_ms if pending.matches else now_ms,
            last_ms=now_ms,
        )
        if pending.matches < self._full_at():
            return pending, batches
        return pending.emptied(), [*batches, pending.events]

    def _full_at(self) -> float:
        match self.kind:
            case BatchingKind.IMMEDIATE:
                return 1
            case BatchingKind.COUNT:
                return self.limit
            case BatchingKind.DEBOUNCE_S | BatchingKind.WINDOW_S:
                return MATCHES_MAX
            case _:
                assert_never(self.kind)


CALLS_MAX = 1_000
MERGED_EVENTS_MAX = 10_000


class Backlog:
    """Batches in their order. `merged` counts merged events, `left_out` dropped events."""

    def __init__(self) -> None:
        self.merged = 0
        self.left_out = 0
        self._batches: deque[Batch] = deque()

    def __len__(self) -> int:
        return len(self._batches)

    def add(self, batch: Batch) -> None:
        """Add the batch of one more call."""
        self._batches.append(batch)
        if len(self._batches) > CALLS_MAX:
            first, second = self._batches.popleft(), self._batches.popleft()
            both = first + second
            merged = both[-MERGED_EVENTS_MAX:]
            self.merged += len(first)
            self.left_out += len(both) - len(merged)
            self._batches.appendleft(merged)

    def take(self) -> Batch | None:
        """Remove and return the batch of the next call; None where no batch waits."""
        return self._batches.popleft() if self._batches else None

    def drop_all(self) -> None:
        """Drop all batches, and count their events as left out."""
        while (batch := self.take()) is not None:
            self.left_out += len(batch)
