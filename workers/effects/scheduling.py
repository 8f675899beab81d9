"""Starts what a job's state names next, once nothing is in the way; else it says what is."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from kernel.errors import CallError, FencedError, UnknownRecordError
from kernel.event import Cause, Event
from kernel.machines.job import changes
from kernel.machines.job.names import State
from kernel.record import Record
from kernel.store.plan import Call, Jot, Warrant
from kernel.store.tells import MISSING, Dependent
from kernel.table import Terminal
from workers.jobs.limits import Usage, time_left_ms, usages
from workers.jobs.slots import all_of, give_back, graph_of, needed, occupy
from workers.work import Outcome, Work

PARTY = "scheduling"
HAVE_SLOTS = (State.RUNNING, State.PAUSED)


def scheduling(work: Work) -> Outcome | None:
    """Look at the job as it is now. It may have moved on since this was owed."""
    match work.record.state:
        case State.PENDING if not work.record.data["met"]:
            return recount(work)
        case State.PENDING if changes.startable(work.record.data):
            return start(work)
        case State.REVIEW_REQUIRED if not changes.waits_for_word(work.record.data):
            return review(work)
        case state if state not in (*HAVE_SLOTS, State.PENDING):
            # An attempt that was lost may have taken slots before the job moved on.
            give_back(
                work, all_of(work.dispatch, work.record, graph_of(work.dispatch, work.record))
            )
    return None


def start(work: Work) -> Outcome | None:
    """Start the worker, where limits and slots allow it."""
    record, graph = work.record, graph_of(work.dispatch, work.record)
    found = used(record, graph)
    if reached := _stopped(work, found):
        return reached
    if graph is not None and _halted(work, graph, found):
        _awaits(work, [f"limit:{graph.id}"])
        return None
    slots = needed(work.dispatch, record, graph)
    taken = occupy(work, slots)
    if taken:
        _awaits(work, taken)
        return None
    payload: dict[str, Any] = {"slots": sorted(slots)}
    left = time_left_ms(found)
    payload |= {"time_left_ms": left} if left is not None else {}
    return Outcome("scheduled", payload, {"runs": 1})


def review(work: Work) -> Outcome | None:
    """Start the reviewer, where limits allow it: a review may cost as well."""
    record, graph = work.record, graph_of(work.dispatch, work.record)
    found = [one for one in used(record, graph) if one.limit != "iterations"]
    if record.data.get("review") is None:
        return Outcome("step")
    if reached := _stopped(work, found):
        return reached
    if graph is not None and _halted(work, graph, found):
        return None
    left = time_left_ms(found)
    return Outcome("step", {"time_left_ms": left} if left is not None else {})


def used(record: Record, graph: Record | None) -> list[Usage]:
    """Return what is used of each limit of a job and of its graph."""
    found = list(usages(record, "job"))
    return found + (list(usages(graph, "graph")) if graph is not None else [])


def _stopped(work: Work, found: list[Usage]) -> Outcome | None:
    """Return what stops a job at its own limit; warn of those that are nearly reached."""
    for one in found:
        if one.warns:
            jot = Jot("limit_warning", {**one.payload(), "of": one.of})
            work.dispatch.note(
                work.record, jot, op_id=f"limit:{one.of}:{one.limit}:{one.allowed:g}"
            )
    own = next((one for one in found if one.reached and one.of == "job"), None)
    if own is None:
        return None
    return Outcome(
        "limit_reached", {**own.payload(), "of": own.of}, reason=f"{own.limit} is used up"
    )


def _halted(work: Work, graph: Record, found: list[Usage]) -> bool:
    """Whether its graph starts nothing now; the first job to see a limit reached says so."""
    if graph.state == "halted":
        return True
    reached = next((one for one in found if one.reached and one.of == "graph"), None)
    if reached is None:
        return False
    call = Call(
        cause=Cause(PARTY, f"seen by {work.record.id}"),
        op_id=f"limit:{graph.entered}:{reached.limit}",
        warrant=Warrant.party(PARTY),
    )
    with suppress(CallError):  # another job was faster, or a steward has raised it
        work.dispatch.fire(graph.id, "limit_reached", reached.payload(), call)
    return True


def _awaits(work: Work, slots: list[str]) -> None:
    if work.record.data.get("slots") != slots:
        work.fire(Outcome("slot_awaited", {"slots": slots}))


# --- dependencies ----------------------------------------------------------------------------


def recount(work: Work) -> Outcome | None:
    """Look at each dependency that is still counted: the backstop of the tells."""
    record = work.record
    counting = counting_of(work, record)
    if counting is None:
        return None
    for one in work.dispatch.views.counted(record.id, counting.countdown) - {"*"}:
        work.go_on()
        ended = ended_as(work, one)
        if ended:
            if ended != State.SUCCESS:
                _lose(work, one, ended)
            work.dispatch.depart(counting, one, ended)
    if work.dispatch.views.counted(record.id, counting.countdown):
        return None
    tally = {"tally": work.dispatch.views.tally(record.id, counting.countdown)}
    met = Outcome(work.machine.advances, tally)
    return met if work.machine.explain(work.record, met.trigger, tally).target else None


def counting_of(work: Work, record: Record) -> Dependent | None:
    """Return the job as one that waits in its latest countdown, None where it began none."""
    spawns = {str(row.trigger): row.spawns for row in work.machine.transitions if row.spawns}
    begun = [
        f"{spawns[line.trigger]}:{line.version}"
        for line in work.dispatch.views.history(record.id)
        if isinstance(line, Event) and line.trigger in spawns
    ]
    return Dependent.of(record, begun[-1]) if begun else None


def ended_as(work: Work, one: str) -> str:
    """Return how a record ended, '' where it has not."""
    try:
        other = work.dispatch.views.record(one)
    except UnknownRecordError:
        return MISSING
    over = isinstance(work.dispatch.lifecycle.machine(other.machine).stage(other.state), Terminal)
    return other.state if over else ""


def _lose(work: Work, one: str, ended: str) -> None:
    payload: Mapping[str, Any] = {"dependency": one, "state": ended}
    if not work.machine.explain(work.record, work.machine.loses, payload).target:
        return
    try:
        work.fire(Outcome(work.machine.loses, payload, reason=f"{one}: {ended}"))
    except FencedError:
        raise
    except CallError:
        work.record = work.dispatch.views.record(work.record.id)
