"""Wakes the jobs of a graph that may run now, and finishes a graph whose jobs have all ended."""

from __future__ import annotations

from collections.abc import Iterator

from interlock import EffectWork, Outcome, Terminal
from interlock.system.tables import RecordId
from interlock.systems.jobs.machines.effects import SCHEDULING
from interlock.systems.jobs.machines.job.changes import startable
from interlock.systems.jobs.machines.job.names import State

FINISHED_MS = 86_400_000  # a graph whose last job ended so long ago is finished


def graph_upkeep(work: EffectWork) -> Outcome | None:
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
                work.dispatch.lifecycle.wake(
                    job_id, SCHEDULING, {"why": "upkeep of its graph"}, f"{work.key}:{job_id}"
                )
    return None if live or not is_over(work) else Outcome("finish")


def live_jobs(work: EffectWork) -> list[RecordId]:
    """Return the jobs of the graph that have not ended."""
    return list(_jobs(work, terminal=False))


def is_over(work: EffectWork) -> bool:
    """Whether the last job of the graph ended a day ago; until then jobs may be added."""
    views = work.dispatch.views
    ended = views.each_record(_jobs(work, terminal=True))
    last_ms = max((record.since_ms for record in ended), default=None)
    return last_ms is not None and views.now_ms() - last_ms >= FINISHED_MS


def _jobs(work: EffectWork, *, terminal: bool) -> Iterator[RecordId]:
    machine = work.dispatch.lifecycle.machine("job")
    states = [stage.state for stage in machine.stages if isinstance(stage, Terminal) is terminal]
    return work.dispatch.views.ids(machine, root=work.record.id, states=states)
