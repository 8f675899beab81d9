"""Waits for a condition instead of for a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(condition: Callable[[], T], *, what: str, within_s: float = 20.0) -> T:
    """Return the first true value of the condition, or fail and name what did not happen."""
    deadline = time.monotonic() + within_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            message = f"waited {within_s:g} s in vain: {what}"
            raise AssertionError(message)
        time.sleep(0.005)
