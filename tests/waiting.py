"""Waits for a condition instead of a fixed time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
PAUSE_S, PAUSE_MAX_S = 0.005, 0.1


def until(condition: Callable[[], T], *, what: str, within_s: float = 180) -> T:
    """Return the first true value of the condition; fail with `what` if there is none in time."""
    deadline, pause_s = time.monotonic() + within_s, PAUSE_S
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            message = f"waited {within_s:g} s, and this did not happen: {what}"
            raise AssertionError(message)
        time.sleep(pause_s)
        # Many conditions read a store or every process, on the cores that the test waits for.
        pause_s = min(PAUSE_MAX_S, 1.3 * pause_s)
