"""The remarks of sentinels, and whether the state of one of them changed. Thread-safe."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass

REMARKS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class Remark:
    """The text that one call returned (its last 4 KiB), and in one sentence its problem, if any."""

    sentinel: str
    at_ms: int
    text: str
    problem: str = ""


class Journal:
    """Remarks and changes until they are taken; of too many remarks the newest stay."""

    def __init__(self) -> None:
        self._remarks: deque[Remark] = deque(maxlen=REMARKS_MAX)
        self._changed = threading.Event()

    def change(self) -> None:
        """Note that the state of a sentinel changed."""
        self._changed.set()

    def remark(self, remark: Remark) -> None:
        """Add a remark."""
        self._remarks.append(remark)

    def take_change(self) -> bool:
        """Return whether a state changed since the last call; read the states after this call."""
        changed = self._changed.is_set()
        # Cleared before the states are read: a change in between is reported twice, never missed.
        self._changed.clear()
        return changed

    def take_remarks(self) -> list[Remark]:
        """Remove and return the remarks since the last call."""
        return [self._remarks.popleft() for _ in range(len(self._remarks))]
