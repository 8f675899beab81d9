"""The batches of events that wait for the next call of one sentinel.

Where too many wait, the two oldest are merged. A merged batch with more events than a call can take
loses its oldest events, and they are counted.
"""

from __future__ import annotations

from collections import deque

from interlock.workers.runs.sentinels.call_timing import Batch

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
