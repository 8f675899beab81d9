"""The slots of a job: which it needs, how many there are, and who is rung when one is free."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

from interlock.kernel.errors import UnknownRecordError
from interlock.kernel.machines.jobs.effects import SCHEDULING
from interlock.kernel.record import Record, RecordId, root_of
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.work import Work

GRAPH, QUEUE = "graph", "queue"


def graph_of(dispatch: Dispatch, job: Record) -> Record | None:
    """Return the graph of a job; None where its producer opened none."""
    try:
        return dispatch.views.record(root_of(job.id))
    except UnknownRecordError:
        return None


def needed(dispatch: Dispatch, job: Record, graph: Record | None) -> dict[str, int]:
    """Return the slots that a job needs to run, and how many there are of each."""
    found: dict[str, int] = {}
    if graph is not None and graph.data["slots"]:
        found[f"{GRAPH}:{graph.id}"] = int(graph.data["slots"])
    queue = job.data.get("queue")
    if queue and (limit := dispatch.settings.queue_slots.get(queue)):
        found[f"{QUEUE}:{queue}"] = limit
    return found


def occupy(work: Work, slots: Mapping[str, int]) -> list[str]:
    """Take all these slots for a job, or none; return the first of which all are taken.

    It stands in the line for that one alone: a slot that it was given of another would be nobody's
    until then, and somebody may be able to run with it.
    """
    for name, limit in slots.items():
        answer = work.dispatch.slots.occupy(name, work.record, limit)
        ring(work, name, limit, answer.rings)
        if not answer.held:
            give_back(work, {other: most for other, most in slots.items() if other != name})
            return [name]
    return []


def give_back(work: Work, slots: Mapping[str, int]) -> None:
    """Give slots back, or places in their lines, and ring who has them now."""
    for name, limit in slots.items():
        ring(work, name, limit, work.dispatch.slots.vacate(name, work.record.id, limit))


def all_of(dispatch: Dispatch, job: Record, graph: Record | None) -> dict[str, int]:
    """Return every slot that a job may have or stand in line for, also of a limit since lifted."""
    queue = job.data.get("queue")
    names = [f"{GRAPH}:{root_of(job.id)}", *([f"{QUEUE}:{queue}"] if queue else [])]
    return {**dict.fromkeys(names, 0), **needed(dispatch, job, graph)}


def ring(work: Work, name: str, limit: int, jobs: Iterable[RecordId]) -> None:
    """Let jobs that were given a slot go on. What nobody can take up goes to the next in line."""
    left = deque(jobs)
    while left:
        one = left.popleft()
        try:
            work.dispatch.wake(one, SCHEDULING, {"slot": name}, f"{work.key}:{name}:{one}")
            # While it is paused it keeps that bell, not the slot: it stands in line anew later.
            taken_up = not work.dispatch.views.record(one).paused
        except UnknownRecordError:
            taken_up = False
        if not taken_up:
            left += work.dispatch.slots.vacate(name, one, limit)
