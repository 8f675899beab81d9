"""What sentinels said, and whether any of them changed: safe from many threads, it tells nobody."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass

REMARKS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class Remark:
    """What one call said (its last 4 KiB), and in one sentence what was wrong, if anything was."""

    sentinel: str
    at_ms: int
    said: str
    problem: str = ""


class Journal:
    """Remarks and changes until somebody takes them; of too many remarks the newest stay."""

    def __init__(self) -> None:
        self._remarks: deque[Remark] = deque(maxlen=REMARKS_MAX)
        self._changed = threading.Event()

    def change(self) -> None:
        """Note that some sentinel's state is another."""
        self._changed.set()

    def remark(self, remark: Remark) -> None:
        """Keep a remark until it is taken."""
        self._remarks.append(remark)

    def take_change(self) -> bool:
        """Tell whether anything changed since this was asked last; read the states after it."""
        changed = self._changed.is_set()
        # Cleared before the states are read: a change in between is told once more, never missed.
        self._changed.clear()
        return changed

    def take_remarks(self) -> list[Remark]:
        """Return what was said since this was asked last."""
        return [self._remarks.popleft() for _ in range(len(self._remarks))]
