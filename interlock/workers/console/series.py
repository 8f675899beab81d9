"""Keeps samples of all counts for a day, to compare them with now.

The store counts totals only. Each process that serves the console looks at them once a minute, from
its start on, however many people look at its pages.

A page uses it like this:

    samples: Samples = request.app.state.samples
    series(samples.kept, "thread")       # transitions of each of the last 60 minutes, for a chart
    samples.before(HOUR_S)               # the sample of an hour ago, or the oldest one
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise

from fastapi.concurrency import run_in_threadpool

from interlock.kernel.errors import StoreError
from interlock.kernel.store.metrics import Durations, Metrics
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.refusals import Repeated

log = logging.getLogger(__name__)

SAMPLE_S = 60
MINUTES = 60
HOUR_S, DAY_S = 3_600, 86_400
RARE_S = 600  # so far apart are the samples that are older than an hour


@dataclass(frozen=True, slots=True)
class Sample:
    """What was counted at a time (ms, by the store): records by state, and all totals."""

    at_ms: int
    counts: Mapping[str, Mapping[str, int]]
    totals: Metrics

    def transitions(self, machine: str) -> int:
        """Return how many transitions the records of a machine had made until then."""
        return sum(n for key, n in self.totals.transitions.items() if key[0] == machine)


class Samples:
    """The samples of one process, the oldest first: one a minute for an hour, then fewer."""

    def __init__(self, dispatch: Dispatch) -> None:
        self.dispatch = dispatch
        self.kept: list[Sample] = []

    def before(self, ago_s: int) -> Sample | None:
        """Return the sample that is nearest to a time ago; the oldest one where none is as old."""
        if not self.kept:
            return None
        wanted_ms = self.kept[-1].at_ms - ago_s * 1_000
        return min(self.kept, key=lambda one: abs(one.at_ms - wanted_ms))

    def look(self) -> None:
        """Take a sample. Raises StoreError."""
        views = self.dispatch.views
        counts, totals = views.counts(self.dispatch.machines.values()), self.dispatch.metrics.read()
        self.kept = thinned([*self.kept, Sample(views.now_ms(), counts, totals)])

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Take a sample a minute, until the block ends."""
        looking = asyncio.create_task(self._look_again())
        try:
            yield
        finally:
            looking.cancel()
            with suppress(asyncio.CancelledError):
                await looking

    async def _look_again(self) -> None:
        looked = Repeated("the store", (StoreError,))
        while True:
            try:
                await run_in_threadpool(looked, self.look)
            except Exception:
                # It is tried again: otherwise one fault would end all comparisons.
                log.exception("no sample could be taken")
            await asyncio.sleep(SAMPLE_S)


def series(kept: Sequence[Sample], machine: str, minutes: int = MINUTES) -> list[int | None]:
    """Return the transitions of a machine in each of the last minutes, the oldest first.

    The list always has `minutes` numbers. None is a minute in which this process did not look: it
    had not begun, or could not reach the store; what happened meanwhile is in the minute after it.
    """
    found: list[int | None] = []
    for earlier, later in pairwise(kept):
        missed = round((later.at_ms - earlier.at_ms) / (SAMPLE_S * 1_000)) - 1
        found += [None] * min(missed, minutes)
        found.append(max(later.transitions(machine) - earlier.transitions(machine), 0))
    return ([None] * minutes + found)[-minutes:]


def flow_between(machine: str, earlier: Metrics, later: Metrics) -> Counter[tuple[str, str]]:
    """Return how often records of a machine went from one state to another between two looks."""
    moved: Counter[tuple[str, str]] = Counter()
    for (name, source, target), number in later.transitions.items():
        if name == machine:
            since = number - earlier.transitions.get((name, source, target), 0)
            moved[source, target] = max(since, 0)
    return moved


def stays_between(machine: str, state: str, earlier: Metrics, later: Metrics) -> Durations:
    """Return how long records had been in a state that left it between two looks."""
    before = earlier.dwell.get((machine, state), Durations())
    after = later.dwell.get((machine, state), Durations())
    since = [max(b - a, 0) for a, b in zip(before.buckets, after.buckets, strict=True)]
    return Durations(since, max(after.sum_ms - before.sum_ms, 0))


def thinned(kept: Collection[Sample]) -> list[Sample]:
    """Return samples without those that are not needed any more, by the time of the newest."""
    *older, newest = kept
    left: list[Sample] = []
    for one in older:
        age_s = (newest.at_ms - one.at_ms) / 1_000
        is_near = bool(left) and (one.at_ms - left[-1].at_ms) / 1_000 < RARE_S - SAMPLE_S / 2
        if age_s > DAY_S + RARE_S or (age_s > HOUR_S + SAMPLE_S and is_near):
            continue
        left.append(one)
    return [*left, newest]
