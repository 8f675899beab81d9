"""Starts what a job's state names next, once nothing is in the way; else it says what is."""

from __future__ import annotations

from typing import Any

from interlock.kernel.machines.jobs.job import changes
from interlock.kernel.machines.jobs.job.names import State
from interlock.workers.engine.work import Outcome, Work
from interlock.workers.jobs.dependencies import recount
from interlock.workers.jobs.limits import Usage, is_halted, time_left_ms, used, warn
from interlock.workers.jobs.slots import all_of, give_back, graph_of, needed, occupy

HAVE_SLOTS = (State.RUNNING, State.PAUSED)


def scheduling(work: Work) -> Outcome | None:
    """Look at the job as it is now. It may have moved on since this was owed."""
    match work.record.state:
        case State.PENDING if not work.record.data["met"]:
            return recount(work)
        case State.PENDING if changes.startable(work.record.data):
            return start(work)
        case State.REVIEW_REQUIRED if changes.reviewable(work.record.data):
            return review(work)
        case state if state not in HAVE_SLOTS:
            # A lost attempt may have taken slots, or it was given some, before it moved on.
            let_go(work)
    return None


def start(work: Work) -> Outcome | None:
    """Start the worker, where limits and slots allow it."""
    record, graph = work.record, graph_of(work.dispatch, work.record)
    # What is done already is only handed in again: that is no run.
    runs = 0 if changes.finished(record.data) else 1
    found = [one for one in used(record, graph) if runs or one.limit != "iterations"]
    warn(work, found)
    if reached := _stopped(found):
        return reached
    if graph is not None and is_halted(work, graph, found):
        # Others may be able to run with what it was given meanwhile.
        let_go(work)
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
    return Outcome("scheduled", payload, {"runs": runs} if runs else {})


def review(work: Work) -> Outcome | None:
    """Start the reviewer, where limits allow it: a review may cost as well."""
    record = work.record
    if record.data.get("review") is None:
        return Outcome("step")
    graph = graph_of(work.dispatch, record)
    found = [one for one in used(record, graph) if one.limit != "iterations"]
    warn(work, found)
    if reached := _stopped(found):
        return reached
    if graph is not None and is_halted(work, graph, found):
        return None
    # Its vacancy would wait until the review is over: the two share the job's directory.
    give_back(work, needed(work.dispatch, record, graph))
    left = time_left_ms(found)
    return Outcome("step", {"time_left_ms": left} if left is not None else {})


def let_go(work: Work) -> None:
    """Give back every slot that a job may have."""
    give_back(work, all_of(work.dispatch, work.record, graph_of(work.dispatch, work.record)))


def _stopped(found: list[Usage]) -> Outcome | None:
    """Return what stops a job at its own limit."""
    own = next((one for one in found if one.reached and one.of == "job"), None)
    if own is None:
        return None
    payload = {**own.payload(), "of": own.of}
    return Outcome("limit_reached", payload, reason=f"{own.limit} is used up")


def _awaits(work: Work, slots: list[str]) -> None:
    if work.record.data.get("slots") != slots:
        work.fire(Outcome("slot_awaited", {"slots": slots}))
