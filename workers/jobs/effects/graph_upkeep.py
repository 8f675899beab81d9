"""Wakes the jobs of a graph that may run now, and finishes a graph whose jobs have all ended."""

from __future__ import annotations

from interlock.kernel.machines.jobs.effects import SCHEDULING
from interlock.kernel.machines.jobs.job.changes import startable
from interlock.kernel.machines.jobs.job.names import State
from interlock.kernel.record import RecordId, partition_of, root_of
from interlock.kernel.table import Terminal
from interlock.workers.engine.work import Outcome, Work

PAGE = 1_000
FINISHED_MS = 86_400_000


def graph_upkeep(work: Work) -> Outcome | None:
    """Wake every job that may go on; finish the graph if all of its jobs have ended."""
    record = work.record
    if record.state == "finished":
        return None
    live = live_jobs(work)
    if record.state == "open":
        for job_id in live:
            work.raise_if_stopped()
            job = work.dispatch.views.record(job_id)
            startable_now = job.state == State.PENDING and startable(job.data)
            if startable_now or job.state == State.REVIEW_REQUIRED:
                work.dispatch.wake(job_id, SCHEDULING, {"graph": "tended"}, f"{work.key}:{job_id}")
    return None if live or not is_over(work) else Outcome("finish")


def live_jobs(work: Work) -> list[RecordId]:
    """Return the jobs of the graph that have not ended."""
    states = _states(work, terminal=False)
    return [job for state in states for job in _jobs_in_state(work, state)]


def is_over(work: Work) -> bool:
    """Whether the last job of the graph ended a day ago; until then jobs may be added."""
    views = work.dispatch.views
    ids = [job for state in _states(work, terminal=True) for job in _jobs_in_state(work, state)]
    last_ms = max((record.since_ms for record in views.records(ids).values()), default=None)
    return last_ms is not None and views.now_ms() - last_ms >= FINISHED_MS


def _states(work: Work, *, terminal: bool) -> list[str]:
    machine = work.dispatch.lifecycle.machine("job")
    return [str(stage.state) for stage in machine.stages if isinstance(stage, Terminal) is terminal]


def _jobs_in_state(work: Work, state: str) -> list[RecordId]:
    machine, graph = work.dispatch.lifecycle.machine("job"), work.record.id
    found = work.dispatch.views.scan_state(machine, state, partition_of(graph), PAGE)
    return [record_id for record_id in found if root_of(record_id) == graph]
