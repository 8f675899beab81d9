"""Keeps a value for a while, so that the store is asked once however many ask for the value."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Kept(Generic[Value]):
    """A value that `read` returns, read anew when it is older than `kept_s` seconds.

    If reading fails, the error goes to who asked, and the next one reads again. Safe in threads.
    """

    def __init__(self, read: Callable[[], Value], kept_s: float = 1.0) -> None:
        self._read, self._kept_s = read, kept_s
        self._lock = Lock()
        self._found: tuple[float, Value] | None = None

    def value(self) -> Value:
        """Return the value. Raises what reading it raises."""
        with self._lock:
            if self._found is None or time.monotonic() - self._found[0] > self._kept_s:
                self._found = None
                self._found = (time.monotonic(), self._read())
            return self._found[1]
