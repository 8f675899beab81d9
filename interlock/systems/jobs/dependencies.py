"""The dependencies that a job still waits for: its countdowns, their ends, and cycles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlock import CallError, EffectWork, Outcome, Terminal
from interlock.system.errors import UnknownRecordError
from interlock.system.files import starved_by
from interlock.system.records import MISSING, PLACEHOLDER, Dispatch, Subscriber
from interlock.system.tables import countdowns_begun
from interlock.systems.jobs.machines.job.names import State, Trigger

CYCLE = "cycle"
CYCLE_LENGTH_MAX = 100  # jobs of a cycle that are named


def dependencies_to_count(work: EffectWork, countdown: str) -> list[str]:
    """Return the dependencies for a new countdown: those that the one before still counts, or all.

    A dependency that has left an earlier countdown has been reported, and may be deleted by now.
    """
    dependencies: list[str] = list(work.record.data["depends_on"])
    begun = countdowns_begun(work.machine, work.dispatch.views.history(work.record.id))
    for earlier in reversed([name for name in begun if name != countdown]):
        counted = work.dispatch.views.counted(work.record.id, earlier)
        # A countdown that is still open may not have counted all dependencies.
        if PLACEHOLDER not in counted:
            return [dependency for dependency in dependencies if dependency in counted]
    return dependencies


def report_lost(work: EffectWork, dependency: str, ended: str) -> None:
    """Fire that a dependency is lost, unless an earlier attempt or a notification did so."""
    payload: Mapping[str, Any] = {"dependency": dependency, "state": ended}
    if not work.machine.explain(work.record, Trigger.DEPENDENCY_LOST, payload).target:
        return
    try:
        work.fire(Outcome(Trigger.DEPENDENCY_LOST, payload))
    except CallError:
        # The notification was faster, or the job has moved on.
        work.record = work.dispatch.views.record(work.record.id)


def recount(work: EffectWork) -> Outcome | None:
    """Check each dependency that is still counted, in case a notification was lost."""
    dispatch, record = work.dispatch, work.record
    begun = countdowns_begun(work.machine, dispatch.views.history(record.id))
    if not begun:
        return None
    dependent = Subscriber.of(record, begun[-1])
    left = dispatch.views.counted(record.id, dependent.countdown) - {PLACEHOLDER}
    for dependency in sorted(left):
        work.raise_if_stopped()
        ended = end_state(dispatch, dependency)
        if ended:
            if ended != State.SUCCESS:
                report_lost(work, dependency, ended)
            dispatch.lifecycle.leave_countdown(dependent, dependency, ended)
            left.discard(dependency)
    if left:
        for dependency in dependencies_in_cycle(work, left):
            report_lost(work, dependency, CYCLE)
            # A job whose loss is waived must not keep waiting for it.
            dispatch.lifecycle.leave_countdown(dependent, dependency, CYCLE)
        return None
    if dispatch.views.counted(record.id, dependent.countdown):
        return None  # the subscription effect is still counting
    tally = {"tally": dispatch.views.tally(record.id, dependent.countdown)}
    met = Outcome(Trigger.DEPENDENCIES_MET, tally)
    return met if work.machine.explain(work.record, met.trigger, tally).target else None


def end_state(dispatch: Dispatch, record_id: str) -> str:
    """Return the state in which a record ended, MISSING if it does not exist, else ''."""
    try:
        record = dispatch.views.record(record_id)
    except UnknownRecordError:
        return MISSING
    stage = dispatch.lifecycle.machine(record.machine).stage(record.state)
    return record.state if isinstance(stage, Terminal) else ""


def dependencies_in_cycle(work: EffectWork, left: set[str]) -> list[str]:
    """Return the dependencies of a job that depend on the job themselves, so that none can start.

    The clients refuse cycles; drafts that were activated by their cards may still form one.
    """
    graph: dict[str, list[str]] = {}
    job = str(work.record.id)
    seen, ahead = {job}, left
    for _ in range(CYCLE_LENGTH_MAX):
        waiting = {
            name: job.data["depends_on"]
            for name, job in work.dispatch.views.records(ahead).items()
            if job.state == State.PENDING and not job.data["met"]
        }
        graph |= waiting
        seen |= ahead
        ahead = {name for after in waiting.values() for name in after if name not in seen}
        if not ahead:
            break
    return sorted(left & {job, *starved_by(graph, [job])})
