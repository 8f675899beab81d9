"""Releases the slots of a job that no longer runs, and wakes the jobs that get them."""

from __future__ import annotations

from interlock import EffectWork
from interlock.systems.jobs.machines.effects import SCHEDULING
from interlock.systems.jobs.machines.job.changes import startable
from interlock.systems.jobs.machines.job.data import JobData
from interlock.systems.jobs.machines.job.names import State
from interlock.systems.jobs.slots import graph_of, possible_slots, release_slots


def slot_release(work: EffectWork[JobData]) -> None:
    """Release every slot that a job may hold, except those of a run that has started since."""
    record, records = work.record, work.records
    running = record.state in (State.RUNNING, State.PAUSED)
    kept = record.data.get("slots", ()) if running else ()
    slots = possible_slots(records, record, graph_of(records, record))
    release_slots(work, {name: limit for name, limit in slots.items() if name not in kept})
    if record.state == State.PENDING and startable(record.data):
        # The job may already wait for a slot again, and was just removed from that queue.
        records.wake(record.id, SCHEDULING, {"why": "it left its queues"}, f"{work.key}:again")
