"""The calls of one sentinel that wait for their turn; it makes none, and counts what it gives up.

Where too many wait, the two oldest become one. Only one of more events than a call can take loses
its oldest, and that is counted too.
"""

from __future__ import annotations

from collections import deque

from interlock.workers.runs.sentinels.strategy import Batch

CALLS_MAX = 1_000
MERGED_EVENTS_MAX = 10_000


class Backlog:
    """Batches in their order. `merged` and `left_out` count events."""

    def __init__(self) -> None:
        self.merged = 0
        self.left_out = 0
        self._batches: deque[Batch] = deque()

    def __len__(self) -> int:
        return len(self._batches)

    def add(self, batch: Batch) -> None:
        """Let one more call wait."""
        self._batches.append(batch)
        if len(self._batches) > CALLS_MAX:
            first, second = self._batches.popleft(), self._batches.popleft()
            both = first + second
            kept = both[-MERGED_EVENTS_MAX:]
            self.merged += len(first)
            self.left_out += len(both) - len(kept)
            self._batches.appendleft(kept)

    def take(self) -> Batch | None:
        """Return the batch of the next call, if one waits."""
        return self._batches.popleft() if self._batches else None

    def give_up(self) -> None:
        """Forget all that waits, and count it."""
        while (batch := self.take()) is not None:
            self.left_out += len(batch)
