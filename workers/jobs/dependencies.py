"""What a job still waits for: its countdowns, who of them has ended, and rings that never will."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlock.kernel.errors import CallError, UnknownRecordError
from interlock.kernel.event import Event
from interlock.kernel.machine import Machine
from interlock.kernel.machines.jobs.job.names import State
from interlock.kernel.record import Record
from interlock.kernel.store.subscriptions import MISSING, Dependent
from interlock.kernel.table import Terminal
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.work import Outcome, Work

RING = "ring"
SENTINEL = "*"
LEVELS_MAX = 100


def countdowns(dispatch: Dispatch, machine: Machine, record: Record) -> list[str]:
    """Return the countdowns that a record has begun, <name>:<generation>, oldest first."""
    spawns = {str(row.trigger): row.spawns for row in machine.transitions if row.spawns}
    return [
        f"{spawns[line.trigger]}:{line.version}"
        for line in dispatch.views.history(record.id)
        if isinstance(line, Event) and line.trigger in spawns
    ]


def missing(dispatch: Dispatch, machine: Machine, record: Record) -> set[str]:
    """Return what a job is still waiting for."""
    begun = countdowns(dispatch, machine, record)
    return dispatch.views.counted(record.id, begun[-1]) - {SENTINEL} if begun else set()


def to_register(work: Work, countdown: str) -> list[str]:
    """Return what a countdown is to count: all, or what an earlier one still does.

    What left that has been heard of, and may be forgotten by now.
    """
    named: list[str] = list(work.record.data["depends_on"])
    begun = countdowns(work.dispatch, work.machine, work.record)
    for earlier in reversed([one for one in begun if one != countdown]):
        counted = work.dispatch.views.counted(work.record.id, earlier)
        # Where its registration never ended, nobody knows who it had counted.
        if SENTINEL not in counted:
            return [one for one in named if one in counted]
    return named


def lose(work: Work, one: str, ended: str) -> None:
    """Fire that a dependency is lost, unless that is known: from an earlier attempt or its tell."""
    payload: Mapping[str, Any] = {"dependency": one, "state": ended}
    if not work.machine.explain(work.record, work.machine.dependency_lost_trigger, payload).target:
        return
    try:
        work.fire(Outcome(work.machine.dependency_lost_trigger, payload, reason=f"{one}: {ended}"))
    except CallError:
        # It was told first, or moved on.
        work.record = work.dispatch.views.record(work.record.id)


def recount(work: Work) -> Outcome | None:
    """Look at each dependency that is still counted: the backstop of the tells."""
    dispatch, record = work.dispatch, work.record
    begun = countdowns(dispatch, work.machine, record)
    if not begun:
        return None
    counting = Dependent.of(record, begun[-1])
    left = dispatch.views.counted(record.id, counting.countdown) - {SENTINEL}
    for one in sorted(left):
        work.raise_if_stopped()
        ended = ended_as(dispatch, one)
        if ended:
            if ended != State.SUCCESS:
                lose(work, one, ended)
            dispatch.leave_countdown(counting, one, ended)
            left.discard(one)
    if left:
        for one in ring_of(work, left):
            lose(work, one, RING)
            # Whoever frees it from that must not wait for it all the same.
            dispatch.leave_countdown(counting, one, RING)
        return None
    if dispatch.views.counted(record.id, counting.countdown):
        return None  # its registration is not over yet
    tally = {"tally": dispatch.views.tally(record.id, counting.countdown)}
    met = Outcome(work.machine.advance_trigger, tally)
    return met if work.machine.explain(work.record, met.trigger, tally).target else None


def ended_as(dispatch: Dispatch, one: str) -> str:
    """Return how a record ended, '' where it has not."""
    try:
        other = dispatch.views.record(one)
    except UnknownRecordError:
        return MISSING
    over = isinstance(dispatch.lifecycle.machine(other.machine).stage(other.state), Terminal)
    return other.state if over else ""


def ring_of(work: Work, left: set[str]) -> list[str]:
    """Return which of the jobs that one waits for wait for it in turn: they wait for ever.

    The command line refuses rings; drafts that were activated otherwise may be in one.
    """
    found = []
    for first in sorted(left):
        ahead, seen = {first}, set[str]()
        for _ in range(LEVELS_MAX):
            records = work.dispatch.views.records(ahead)
            waiting = [one for one in records.values() if one.state == State.PENDING]
            seen |= ahead
            ahead = {
                name
                for one in waiting
                if not one.data["met"]
                for name in one.data["depends_on"]
                if name not in seen
            }
            if work.record.id in seen | ahead:
                found.append(first)
                break
            if not ahead:
                break
    return found
