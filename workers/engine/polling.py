"""How often to look again at what others do: soon at first, then ever less; it looks at nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator

FIRST_S = 0.02
# A store that is asked more often than this has less time for the work that is waited for.
MOST_S = 0.5


class Intervals:
    """The pauses between looks; news makes them short again."""

    def __init__(self) -> None:
        self._pause_s = FIRST_S

    def rest(self) -> None:
        """Pause, longer than the time before."""
        time.sleep(self._pause_s)
        self._pause_s = min(self._pause_s * 1.5, MOST_S)

    def news(self) -> None:
        """Begin anew: something has happened."""
        self._pause_s = FIRST_S


def polls(within_s: float) -> Iterator[None]:
    """Yield for each look until the time is up: once at least, and once when it is over."""
    until, pace = time.monotonic() + within_s, Intervals()
    while True:
        last = time.monotonic() > until
        yield
        if last:
            return
        pace.rest()
