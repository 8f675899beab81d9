"""Looks after a graph: wakes its jobs when more may run, and ends it when all of them have."""

from __future__ import annotations

from interlock.kernel.machines.jobs.effects import SCHEDULING
from interlock.kernel.machines.jobs.job.changes import startable
from interlock.kernel.machines.jobs.job.names import State
from interlock.kernel.record import RecordId, partition_of, root_of
from interlock.kernel.table import Terminal
from interlock.workers.engine.work import Outcome, Work

PAGE = 1_000
FINISHED_MS = 86_400_000


def tending(work: Work) -> Outcome | None:
    """Ring every job that may go on now; finish the graph where all of its jobs have ended."""
    record = work.record
    if record.state == "finished":
        return None
    alive = living(work)
    if record.state == "open":
        for one in alive:
            work.raise_if_stopped()
            job = work.dispatch.views.record(one)
            waits = job.state == State.PENDING and startable(job.data)
            if waits or job.state == State.REVIEW_REQUIRED:
                work.dispatch.wake(one, SCHEDULING, {"graph": "tended"}, f"{work.key}:{one}")
    return None if alive or not over(work) else Outcome("finish")


def living(work: Work) -> list[RecordId]:
    """Return every job of the graph that has not ended, by state."""
    return [one for state in _states(work, over=False) for one in _standing(work, state)]


def over(work: Work) -> bool:
    """Whether the last job of the graph ended a day ago; until then another may be created."""
    views = work.dispatch.views
    ids = [one for state in _states(work, over=True) for one in _standing(work, state)]
    last_ms = max((one.since_ms for one in views.records(ids).values()), default=None)
    return last_ms is not None and views.now_ms() - last_ms >= FINISHED_MS


def _states(work: Work, *, over: bool) -> list[str]:
    machine = work.dispatch.lifecycle.machine("job")
    return [str(one.state) for one in machine.stages if isinstance(one, Terminal) is over]


def _standing(work: Work, state: str) -> list[RecordId]:
    machine, graph = work.dispatch.lifecycle.machine("job"), work.record.id
    found = work.dispatch.views.scan_state(machine, state, partition_of(graph), PAGE)
    return [one for one in found if root_of(one) == graph]
