"""Polls with pauses that grow from 20 ms to 500 ms; the error for a wait that is too long."""

from __future__ import annotations

import time
from collections.abc import Iterator

INTERVAL_S_FIRST = 0.02
# Polling more often would take time of the store from the work that is waited for.
INTERVAL_S_MAX = 0.5


class WaitTimeoutError(TimeoutError):
    """The record did not end or ask a person in time. It continues without the caller."""


class Intervals:
    """The pauses between polls: each is longer than the one before, until `reset`."""

    def __init__(self) -> None:
        self._pause_s = INTERVAL_S_FIRST

    def sleep(self) -> None:
        """Sleep for one interval, and make the next one longer."""
        time.sleep(self._pause_s)
        self._pause_s = min(self._pause_s * 1.5, INTERVAL_S_MAX)

    def reset(self) -> None:
        """Begin again with the shortest interval."""
        self._pause_s = INTERVAL_S_FIRST


def polls(within_s: float) -> Iterator[None]:
    """Yield for each poll until the time is up: at least once, and once more after it is up."""
    until, intervals = time.monotonic() + within_s, Intervals()
    while True:
        last = time.monotonic() > until
        yield
        if last:
            return
        intervals.sleep()
