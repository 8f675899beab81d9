"""Bounds how often one caller may call one process of the API."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from math import ceil
from threading import Lock

from interlock.workers.api.problems import TOO_MANY_CALLS, RefusedRequestError
from interlock.workers.remote.problems import TOO_LARGE

BURST_S = 5  # a caller may save up its calls of so many seconds
CALLERS_MAX = 10_000


class Rates:
    """The calls that each caller has left, which come back at a steady rate."""

    def __init__(self, per_second: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_second, self.clock = per_second, clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = Lock()

    def count(self, caller: str, calls: int = 1) -> None:
        """Count calls, or refuse them if the caller has not so many left.

        The call that asks for several counts as one more, which is counted before.
        """
        most = self.per_second * BURST_S
        if calls >= most:
            detail = f"it counts as {calls + 1} calls, and {caller} may make {most} at once"
            raise RefusedRequestError(TOO_LARGE, f"{detail}: send fewer records with it")
        with self._lock:
            now, spent = self.clock(), max(calls, 0)
            before, at = self._left.get(caller, (float(most), now))
            left = min(most, before + (now - at) * self.per_second)
            if left < spent:
                detail = f"{caller} may call {self.per_second} times a second"
                # The next try counts as one call more.
                wait_s = ceil((spent + 1 - left) / self.per_second)
                kind = replace(TOO_MANY_CALLS, retry_after_s=wait_s)
                raise RefusedRequestError(kind, detail)
            self._left[caller] = (left - spent, now)
            self._left.move_to_end(caller)
            while len(self._left) > CALLERS_MAX:
                self._left.popitem(last=False)
