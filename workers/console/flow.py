"""Says whether work flows: what stands on the start page. However many look, it is read once."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock

from interlock.kernel.machine import Machine
from interlock.kernel.store.metrics import BOUNDS_MS, Durations, Metrics
from interlock.kernel.table import Terminal, Waiting
from interlock.workers.engine.celery_app import INTAKE_QUEUE, SWEEPS_QUEUE
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.ops.attendance import attendance
from interlock.workers.systems import sweeps

KEPT_S = 1.0
WORKERS_KEPT_S = 5.0  # workers have a second to answer, so they are asked more rarely
RATE_S = 60.0


@dataclass(frozen=True, slots=True)
class MachineRow:
    """The records of one machine: those that have not ended, and those that wait for a person."""

    name: str
    live: int
    waiting: int
    ended: int
    transitions: int


@dataclass(frozen=True, slots=True)
class StateRow:
    """The records in one state; how long half and 95 % of those that left it were there, at most.

    The times are ms, None where nothing has left the state, or longer than the largest bound.
    """

    name: str
    count: int
    ended: bool
    left: int
    half_ms: int | None
    most_ms: int | None


@dataclass(frozen=True, slots=True)
class Flow:
    """What was seen. Times are ms by the store; `rate` is transitions a minute, None at first."""

    now_ms: int
    rate: float | None
    machines: list[MachineRow]
    states: dict[str, list[StateRow]]
    depths: dict[str, int]
    oldest_ms: dict[str, int]
    queues: dict[str, int]
    sweeps_ms: dict[str, int]
    rejected: int
    workers: list[str]
    problems: list[str]


class FlowWatch:
    """The flow of one deployment. The store is looked at once a second for all who look."""

    def __init__(self, dispatch: Dispatch) -> None:
        self.dispatch = dispatch
        self._lock = Lock()
        self._at, self._found = 0.0, None
        self._workers_at, self._workers = 0.0, {}
        self._seen: deque[tuple[float, int]] = deque()  # when, and how many transitions until then

    _found: Flow | None
    _workers: dict[str, list[str]]

    def look(self) -> Flow:
        """Return the flow as of at most KEPT_S ago. Raises StoreError."""
        with self._lock:
            if self._found is None or time.monotonic() - self._at > KEPT_S:
                self._found, self._at = self._look(), time.monotonic()
            return self._found

    def _look(self) -> Flow:
        dispatch, views = self.dispatch, self.dispatch.views
        counts, counted = views.counts(dispatch.machines.values()), dispatch.metrics.read()
        depths = views.depths()
        if time.monotonic() - self._workers_at > WORKERS_KEPT_S or not self._workers:
            self._workers, self._workers_at = attendance(dispatch, depths), time.monotonic()
        names = {name for machine in dispatch.machines.values() for name in machine.effects}
        lengths = dispatch.publisher.queue_lengths([*sorted(names), INTAKE_QUEUE, SWEEPS_QUEUE])
        return Flow(
            now_ms=views.now_ms(),
            rate=self._rate(sum(counted.transitions.values())),
            machines=[_row(one, counts[one.name], counted) for one in dispatch.machines.values()],
            states={
                name: _states(one, counts[name], counted) for name, one in dispatch.machines.items()
            },
            depths=depths,
            oldest_ms=views.oldest_ms(),
            queues={name: length for name, length in lengths.items() if length},
            sweeps_ms={
                sweep.name: views_ms
                for sweep in sweeps()
                if (views_ms := views.last_sweeps().get(sweep.name))
            },
            rejected=sum(dispatch.rejected.counts().values()),
            workers=self._workers["workers"],
            problems=self._workers["problems"],
        )

    def _rate(self, transitions: int) -> float | None:
        """Return the transitions a minute, from what was seen within RATE_S."""
        now = time.monotonic()
        self._seen.append((now, transitions))
        while self._seen[0][0] < now - RATE_S:
            self._seen.popleft()
        began, before = self._seen[0]
        return (transitions - before) * 60 / (now - began) if now - began >= KEPT_S else None


def _row(machine: Machine, counts: Mapping[str, int], counted: Metrics) -> MachineRow:
    by_kind = {Terminal: 0, Waiting: 0}
    for stage in machine.stages:
        if type(stage) in by_kind:
            by_kind[type(stage)] += counts.get(str(stage.state), 0)
    return MachineRow(
        name=machine.name,
        live=sum(counts.values()) - by_kind[Terminal],
        waiting=by_kind[Waiting],
        ended=by_kind[Terminal],
        transitions=sum(n for key, n in counted.transitions.items() if key[0] == machine.name),
    )


def _states(machine: Machine, counts: Mapping[str, int], counted: Metrics) -> list[StateRow]:
    rows = []
    for stage in machine.stages:
        name = str(stage.state)
        dwell = counted.dwell.get((machine.name, name), Durations())
        rows.append(
            StateRow(
                name=name,
                count=counts.get(name, 0),
                ended=isinstance(stage, Terminal),
                left=sum(dwell.buckets),
                half_ms=_at_most(dwell, 0.5),
                most_ms=_at_most(dwell, 0.95),
            )
        )
    return rows


def _at_most(dwell: Durations, share: float) -> int | None:
    """Return the bound below which so large a share of the durations was."""
    total, seen = sum(dwell.buckets), 0
    for bound, count in zip(BOUNDS_MS, dwell.buckets, strict=False):
        seen += count
        if total and seen >= share * total:
            return bound
    return None
