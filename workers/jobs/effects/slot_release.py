"""Gives back the slots of a job that no longer runs, and rings who has them now."""

from __future__ import annotations

from interlock.kernel.machines.jobs.effects import SCHEDULING
from interlock.kernel.machines.jobs.job.changes import startable
from interlock.kernel.machines.jobs.job.names import State
from interlock.workers.engine.work import Work
from interlock.workers.jobs.slots import all_of, give_back, graph_of


def vacancy(work: Work) -> None:
    """Free what the job has, but for what it needs if it runs by now."""
    record, dispatch = work.record, work.dispatch
    running = record.state in (State.RUNNING, State.PAUSED)
    kept = record.data.get("slots", ()) if running else ()
    every = all_of(dispatch, record, graph_of(dispatch, record))
    give_back(work, {name: limit for name, limit in every.items() if name not in kept})
    if record.state == State.PENDING and startable(record.data):
        # It may stand in line again already, and was just taken out of it.
        dispatch.wake(record.id, SCHEDULING, {"slot": "given back"}, f"{work.key}:again")
