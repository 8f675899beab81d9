"""Waits for a condition instead of a fixed time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(condition: Callable[[], T], *, what: str, within_s: float = 60) -> T:
    """Return the first true value of the condition; fail with `what` if there is none in time."""
    deadline = time.monotonic() + within_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            message = f"waited {within_s:g} s, and this did not happen: {what}"
            raise AssertionError(message)
        time.sleep(0.005)
