"""Keeps a value for a while, so that the store is asked once however many ask for the value."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock, Thread
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Kept(Generic[Value]):
    """A value that `read` returns, read anew when it is older than `kept_s` seconds.

    If reading fails, the caller gets the error, and so do those who waited for that reading: were
    each to read by itself, one after the other would wait for a store that hangs. The next call
    reads again. With `behind_s`, a value that is younger than this is returned at once; a thread in
    the background reads it anew. Safe in threads.
    """

    def __init__(
        self, read: Callable[[], Value], kept_s: float = 1.0, *, behind_s: float = 0.0
    ) -> None:
        self._read, self._kept_s, self._behind_s = read, kept_s, behind_s
        self._lock, self._reading = Lock(), Lock()
        self._found: tuple[float, Value] | None = None
        self._failed: tuple[float, Exception] | None = None

    def value(self) -> Value:
        """Return the value. Raises what reading it raises."""
        asked_s = time.monotonic()
        with self._lock:
            if self._failed and self._failed[0] >= asked_s:
                raise self._failed[1]
            found = self._found
            age_s = time.monotonic() - found[0] if found else 0.0
            if found is None or age_s > (self._behind_s or self._kept_s):
                self._found = None
                found = self._found = (time.monotonic(), self._read_or_fail())
            elif age_s > self._kept_s and self._reading.acquire(blocking=False):
                Thread(target=self._renew, daemon=True).start()
            return found[1]

    def _read_or_fail(self) -> Value:
        self._failed = None
        try:
            return self._read()
        except Exception as error:
            self._failed = (time.monotonic(), error)
            raise

    def _renew(self) -> None:
        try:
            self._found = (time.monotonic(), self._read())
        except Exception:  # noqa: BLE001 - the next call reads again, and gets the error
            self._found = None
        finally:
            self._reading.release()
