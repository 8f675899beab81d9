"""Bounds how often one caller may call one process of the API."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock

from interlock.workers.api.problems import TOO_MANY_CALLS, RefusedRequestError

BURST_S = 5  # a caller may save up its calls of so many seconds
CALLERS_MAX = 10_000


class Rates:
    """The calls that each caller has left, which come back at a steady rate."""

    def __init__(self, per_second: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_second, self.clock = per_second, clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = Lock()

    def count(self, caller: str, calls: int = 1) -> None:
        """Count calls, or refuse them if the caller has not so many left."""
        with self._lock:
            now, most = self.clock(), float(self.per_second * BURST_S)
            before, at = self._left.get(caller, (most, now))
            left = min(most, before + (now - at) * self.per_second)
            # Nobody could ever make more at once than there can be saved up.
            spent = max(0, min(calls, most))
            if left < spent:
                detail = f"{caller} may call {self.per_second} times a second"
                raise RefusedRequestError(TOO_MANY_CALLS, detail)
            self._left[caller] = (left - spent, now)
            self._left.move_to_end(caller)
            while len(self._left) > CALLERS_MAX:
                self._left.popitem(last=False)
