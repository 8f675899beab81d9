"""Says whether work flows: what stands on the start page. However many look, it is read once."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from interlock.kernel.machine import Machine
from interlock.kernel.store.metrics import BOUNDS_MS, Durations, Metrics
from interlock.kernel.table import Terminal, Waiting
from interlock.workers.engine.celery_app import INTAKE_QUEUE, SWEEPS_QUEUE, effect_queues
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.kept import Kept
from interlock.workers.ops.attendance import attendance

KEPT_S = 1.0
WORKERS_KEPT_S = 5.0  # workers have a second to answer, so they are asked more rarely
RATE_S = 60.0


@dataclass(frozen=True, slots=True)
class MachineRow:
    """How many records of a machine are live, are in a state that waits, and have ended."""

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
        self._flow = Kept(self._look, KEPT_S)
        self._workers = Kept(lambda: attendance(dispatch, dispatch.views.depths()), WORKERS_KEPT_S)
        self._seen: deque[tuple[float, int]] = deque()  # when, and how many transitions until then

    def look(self) -> Flow:
        """Return the flow as of at most KEPT_S ago. Raises StoreError."""
        return self._flow.value()

    def _look(self) -> Flow:
        dispatch, views = self.dispatch, self.dispatch.views
        machines = dispatch.machines
        counts, counted = views.counts(machines.values()), dispatch.metrics.read()
        queues = effect_queues(machines.values(), INTAKE_QUEUE, SWEEPS_QUEUE)
        lengths = dispatch.publisher.queue_lengths(queues)
        found = self._workers.value()
        return Flow(
            now_ms=views.now_ms(),
            rate=self._rate(sum(counted.transitions.values())),
            machines=[_row(one, counts[name], counted) for name, one in machines.items()],
            states={name: _states(one, counts[name], counted) for name, one in machines.items()},
            depths=views.depths(),
            oldest_ms=views.oldest_ms(),
            queues={name: length for name, length in lengths.items() if length},
            sweeps_ms=views.last_sweeps(),
            rejected=sum(dispatch.rejected.counts().values()),
            workers=found["workers"],
            problems=found["problems"],
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
    """Return the smallest bound, in ms, that a share of all durations did not exceed.

    None if there is no duration, or if the share is only reached above the largest bound.
    """
    total, seen = sum(dwell.buckets), 0
    for bound, count in zip(BOUNDS_MS, dwell.buckets, strict=False):
        seen += count
        if total and seen >= share * total:
            return bound
    return None
