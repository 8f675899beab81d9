"""Wakes the jobs of a graph that may run now, and finishes a graph whose jobs have all ended."""

from __future__ import annotations

from collections.abc import Iterator

from interlock import EffectWork, Outcome, Terminal
from interlock.systems.jobs.machines.effects import SCHEDULING
from interlock.systems.jobs.machines.graph.data import GraphData
from interlock.systems.jobs.machines.graph.table import State as GraphState
from interlock.systems.jobs.machines.graph.table import Trigger
from interlock.systems.jobs.machines.job.changes import startable
from interlock.systems.jobs.machines.job.names import State

FINISHED_MS = 86_400_000  # a graph whose last job ended so long ago is finished


def graph_upkeep(work: EffectWork[GraphData]) -> Outcome | None:
    """Wake every job that may go on; finish the graph if all of its jobs have ended."""
    record = work.record
    if record.state == GraphState.FINISHED:
        return None
    live = live_jobs(work)
    if record.state == GraphState.OPEN:
        for job_id in live:
            work.raise_if_stopped()
            job = work.records.views.record(job_id)
            startable_now = job.state == State.PENDING and startable(job.data)
            if startable_now or job.state == State.REVIEW_REQUIRED:
                why = {"why": "upkeep of its graph"}
                work.records.wake(job_id, SCHEDULING, why, f"{work.key}:{job_id}")
    return None if live or not is_over(work) else Outcome(Trigger.FINISH)


def live_jobs(work: EffectWork[GraphData]) -> list[str]:
    """Return the jobs of the graph that have not ended."""
    return list(_jobs(work, terminal=False))


def is_over(work: EffectWork[GraphData]) -> bool:
    """Whether the last job of the graph ended a day ago; until then jobs may be added."""
    ended = work.records.views.each_record(_jobs(work, terminal=True))
    last_ms = max((record.since_ms for record in ended), default=None)
    return last_ms is not None and work.records.now_ms() - last_ms >= FINISHED_MS


def _jobs(work: EffectWork[GraphData], *, terminal: bool) -> Iterator[str]:
    machine = work.records.machine("job")
    states = [stage.state for stage in machine.stages if isinstance(stage, Terminal) is terminal]
    return work.records.views.ids(machine, root=work.record.id, states=states)
