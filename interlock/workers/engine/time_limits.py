"""Ends attempts that take longer than their effect allows.

Such an attempt is ordered to stop at first, as if its record were cancelled, so that a handler that
looks ends by itself. What then still goes on, hangs: its lease is given back while it does, so its
late outcome is refused, and its thread is replaced.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from interlock.kernel.blame import place_of_thread
from interlock.kernel.store.leases import Order
from interlock.workers.engine.isolation import Performed
from interlock.workers.engine.work import EffectWork
from interlock.workers.processes.clock import clock
from interlock.workers.text import duration

log = logging.getLogger(__name__)

STOP_S = 2.0  # how long a handler may take to stop once its time is over
LOOK_S_MAX = 60.0  # the clock of a wait stands still while the computer sleeps
# A limit ends so much earlier, because a sum of floats may lie just above the time that it means.
ROUNDED_S = 1e-6


@dataclass(frozen=True, slots=True)
class Watched:
    """An attempt, the thread of its handler, since when it works, and when to look at it again."""

    work: EffectWork
    thread: int
    since: float
    until: float


class TimeLimits:
    """Watches the attempts of this process that have a limit, from a thread of its own."""

    def __init__(
        self, end: Callable[[EffectWork], Performed], clock: Callable[[], float] = clock
    ) -> None:
        self._end = end  # gives back what an attempt holds whose handler goes on
        self._clock = clock
        self.on_hung: Callable[[int, Performed], None] = lambda *_: None  # called with its thread
        self._watched: dict[EffectWork, Watched] = {}
        self._hung: dict[EffectWork, Watched] = {}
        self._changed = threading.Condition()
        self._next = inf
        self._thread: threading.Thread | None = None

    @contextmanager
    def limiting(self, work: EffectWork) -> Iterator[None]:
        """Watch how long the block takes, if the effect has a limit."""
        if not work.limit.ms:
            yield
            return
        now = self._clock()
        self._watch(
            Watched(work, threading.get_ident(), now, now + work.limit.ms / 1_000 - ROUNDED_S)
        )
        try:
            yield
        finally:
            with self._changed:
                self._watched.pop(work, None)
                self._hung.pop(work, None)

    def hung(self) -> list[dict[str, Any]]:
        """Return the attempts that go on though their time is over, as plain data."""
        now = self._clock()
        return [
            {
                "record": work.record.id,
                "effect": f"{work.machine.name}.{work.lease.name}",
                "limit": duration(work.limit.ms),
                "since_ms": int((now - found.since) * 1_000),
                "place": work.limit.place,
            }
            for work, found in tuple(self._hung.items())
        ]

    def _watch(self, found: Watched) -> None:
        with self._changed:
            self._watched[found.work] = found
            if self._thread is None:
                self._start()
            if found.until < self._next:
                self._changed.notify()

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="time limits", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._next = self.next
                self._changed.wait(min(LOOK_S_MAX, max(0.0, self._next - self._clock())))
            self.look()

    @property
    def next(self) -> float:
        """When the first attempt is to be looked at, by the clock; infinity if there is none."""
        return min((each.until for each in self._watched.values()), default=inf)

    def look(self) -> None:
        """Order the attempts to stop whose time is over, and write off those that did not."""
        with self._changed:
            now = self._clock()
            over = [each for each in self._watched.values() if each.until <= now]
            for each in over:
                self._move(each)
        for each in over:
            try:
                self._act(each)
            except Exception:
                # If this thread ended, no attempt of the process would have a limit.
                log.exception("%s is not ended though its time is over", each.work.key)

    def _move(self, over: Watched) -> None:
        """Give an attempt whose time is over some time to stop; after that it hangs."""
        if over.work.limit.has_passed:
            self._hung[over.work] = self._watched.pop(over.work)
        else:
            self._watched[over.work] = replace(over, until=self._clock() + STOP_S - ROUNDED_S)

    def _act(self, over: Watched) -> None:
        work = over.work
        if not work.limit.has_passed:
            work.limit.has_passed = True
            work.held.on_order(Order.STOP, 0)
            return
        # In a thread of its own: the store may be away, and the limits of others go on.
        threading.Thread(target=self._write_off, args=(over,), name="hung", daemon=True).start()

    def _write_off(self, over: Watched) -> None:
        work = over.work
        work.lost.set()  # whatever its handler does from now on
        place_of = work.limit.place_of
        work.limit.place = place_of() if place_of else place_of_thread(over.thread)
        ended = self._end(work)
        if not work.limit.detach():
            log.error("%s: %s", work.key, work.limit.error)
            self.on_hung(over.thread, ended)
