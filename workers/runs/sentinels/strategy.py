"""When accumulated matches are handed over to one call; the time is passed in, nothing waits here.

Windows follow each other without a gap from the time that the heap began.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum, auto
from typing import TypeAlias, assert_never

from interlock.workers.runs.sentinels.trigger import Event

# A codon that never falls silent, or says more than this in a window, is handed over in parts.
MATCHES_MAX = 1_000
_MS = 1_000

Batch: TypeAlias = tuple[Event, ...]


class Kind(StrEnum):
    """What a strategy waits for."""

    IMMEDIATE = auto()
    DEBOUNCE_S = auto()
    COUNT = auto()
    WINDOW_S = auto()


@dataclass(frozen=True, slots=True)
class Heap:
    """What has accumulated since the last call. Times are ms of one clock that never goes back."""

    began_ms: float
    events: Batch = ()
    matches: int = 0
    first_ms: float = 0
    last_ms: float = 0

    def emptied(self) -> Heap:
        """Return the heap after it was handed over."""
        return Heap(self.began_ms)


@dataclass(frozen=True, slots=True)
class Strategy:
    """A kind, and its limit: seconds or matches; immediate has none."""

    kind: Kind
    limit: float = 0

    def due_ms(self, heap: Heap) -> float | None:
        """Return when the heap is to be handed over if nothing more comes; None is never."""
        if not heap.matches:
            return None
        match self.kind:
            case Kind.IMMEDIATE | Kind.COUNT:
                return None
            case Kind.DEBOUNCE_S:
                return heap.last_ms + self.limit * _MS
            case Kind.WINDOW_S:
                length_ms = self.limit * _MS
                windows = (heap.first_ms - heap.began_ms) // length_ms
                return heap.began_ms + (windows + 1) * length_ms
            case _:
                assert_never(self.kind)

    def lapse(self, heap: Heap, now_ms: float) -> tuple[Heap, list[Batch]]:
        """Hand over what is due by now."""
        due_ms = self.due_ms(heap)
        if due_ms is None or now_ms < due_ms:
            return heap, []
        return heap.emptied(), [heap.events]

    def gather(self, heap: Heap, match: Batch, now_ms: float) -> tuple[Heap, list[Batch]]:
        """Add one match, after what was due before it is handed over."""
        heap, batches = self.lapse(heap, now_ms)
        heap = replace(
            heap,
            events=heap.events + match,
            matches=heap.matches + 1,
            first_ms=heap.first_ms if heap.matches else now_ms,
            last_ms=now_ms,
        )
        if heap.matches < self._full_at():
            return heap, batches
        return heap.emptied(), [*batches, heap.events]

    def _full_at(self) -> float:
        match self.kind:
            case Kind.IMMEDIATE:
                return 1
            case Kind.COUNT:
                return self.limit
            case Kind.DEBOUNCE_S | Kind.WINDOW_S:
                return MATCHES_MAX
            case _:
                assert_never(self.kind)
