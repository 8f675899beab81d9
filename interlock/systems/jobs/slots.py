"""The slots of jobs: which a job needs, and which jobs are woken when one is free."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

from interlock import EffectWork
from interlock.system.errors import UnknownRecordError
from interlock.system.records import Records
from interlock.system.tables import Record
from interlock.systems.jobs.machines.effects import SCHEDULING
from interlock.systems.jobs.machines.graph.data import GraphData
from interlock.systems.jobs.machines.job.data import JobData
from interlock.systems.jobs.settings import JobSettings

GRAPH, QUEUE = "graph", "queue"


def graph_of(records: Records, job: Record[JobData]) -> Record[GraphData] | None:
    """Return the graph of a job; None if its producer opened none."""
    try:
        return records.views.record(job.root)
    except UnknownRecordError:
        return None


def needed_slots(
    records: Records, job: Record[JobData], graph: Record[GraphData] | None
) -> dict[str, int]:
    """Return the slots that a job needs to run, each with its limit."""
    found: dict[str, int] = {}
    if graph is not None and graph.data["slots"]:
        found[f"{GRAPH}:{graph.id}"] = graph.data["slots"]
    queue = job.data.get("queue")
    if queue and (limit := records.settings.of(JobSettings).queue_slots.get(queue)):
        found[f"{QUEUE}:{queue}"] = limit
    return found


def acquire_slots(work: EffectWork[JobData], slots: Mapping[str, int]) -> list[str]:
    """Acquire all these slots for a job, or none of them; return the first that is not free.

    The job then waits in the queue for that slot alone. If it held another one meanwhile, nobody
    could use that, though another job may be able to run with it.
    """
    for name, limit in slots.items():
        answer = work.records.slots.acquire(name, work.record, limit)
        wake(work, name, limit, answer.to_wake)
        if not answer.held:
            release_slots(work, {other: n for other, n in slots.items() if other != name})
            return [name]
    return []


def release_slots(work: EffectWork[JobData], slots: Mapping[str, int]) -> None:
    """Release slots, or leave their queues, and wake the jobs that get them."""
    for name, limit in slots.items():
        wake(work, name, limit, work.records.slots.release(name, work.record.id, limit))


def possible_slots(
    records: Records, job: Record[JobData], graph: Record[GraphData] | None
) -> dict[str, int]:
    """Return every slot that a job may hold or wait for, even if its limit was lifted since."""
    queue = job.data.get("queue")
    names = [f"{GRAPH}:{job.root}", *([f"{QUEUE}:{queue}"] if queue else [])]
    return {**dict.fromkeys(names, 0), **needed_slots(records, job, graph)}


def wake(work: EffectWork[JobData], name: str, limit: int, jobs: Iterable[str]) -> None:
    """Wake jobs that were offered a slot; pass on an offer that a job cannot use."""
    left = deque(jobs)
    while left:
        job_id = left.popleft()
        try:
            work.records.wake(
                job_id, SCHEDULING, {"why": f"slot {name}"}, f"{work.key}:{name}:{job_id}"
            )
            # A job that a person has paused is woken later, and gets in the queue again then.
            usable = not work.records.views.record(job_id).paused
        except UnknownRecordError:
            usable = False
        if not usable:
            left += work.records.slots.release(name, job_id, limit)
