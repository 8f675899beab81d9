"""The dependencies that a job still waits for: its countdowns, their ends, and cycles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlock import CallError, EffectWork, Outcome
from interlock.system.tables import Dependencies
from interlock.systems.jobs.machines.job.data import JobData
from interlock.systems.jobs.machines.job.names import State, Trigger

CYCLE = "cycle"
CYCLE_LENGTH_MAX = 100  # jobs of a cycle that are named


def dependencies_to_count(work: EffectWork[JobData], countdown: str) -> list[str]:
    """Return the dependencies for a new countdown: those that the one before still counts, or all.

    A dependency that has left an earlier countdown has been reported, and may be deleted by now.
    """
    dependencies = work.record.data["depends_on"]
    begun = work.records.countdowns(work.record)
    for earlier in reversed([one for one in begun if one.name != countdown]):
        # A countdown that is still open may not have counted all dependencies.
        if earlier.is_filled():
            left = earlier.left()
            return [dependency for dependency in dependencies if dependency in left]
    return dependencies


def report_lost(work: EffectWork[JobData], dependency: str, ended: str) -> None:
    """Fire that a dependency is lost, unless an earlier attempt or a notification did so."""
    payload: Mapping[str, Any] = {"dependency": dependency, "state": ended}
    if not work.machine.explain(work.record, Trigger.DEPENDENCY_LOST, payload).target:
        return
    try:
        work.fire(Outcome(Trigger.DEPENDENCY_LOST, payload))
    except CallError:
        # The notification was faster, or the job has moved on.
        work.record = work.records.views.record(work.record.id)


def recount(work: EffectWork[JobData]) -> Outcome | None:
    """Check each dependency that is still counted, in case a notification was lost."""
    begun = work.records.countdowns(work.record)
    if not begun:
        return None
    countdown = begun[-1]
    left = countdown.left()
    for dependency in sorted(left):
        work.raise_if_stopped()
        if ended := countdown.end_state(dependency):
            if ended != State.SUCCESS:
                report_lost(work, dependency, ended)
            countdown.leave(dependency, ended)
            left.discard(dependency)
    if left:
        for dependency in dependencies_in_cycle(work, left):
            report_lost(work, dependency, CYCLE)
            # A job whose loss is waived must not keep waiting for it.
            countdown.leave(dependency, CYCLE)
        return None
    if not countdown.is_over():
        return None  # the subscription effect is still counting
    tally = {"tally": countdown.tally()}
    met = Outcome(Trigger.DEPENDENCIES_MET, tally)
    return met if work.machine.explain(work.record, met.trigger, tally).target else None


def dependencies_in_cycle(work: EffectWork[JobData], left: set[str]) -> list[str]:
    """Return the dependencies of a job that depend on the job themselves, so that none can start.

    The clients refuse cycles; drafts that were activated by their cards may still form one.
    """
    graph: dict[str, list[str]] = {}
    job = str(work.record.id)
    seen, ahead = {job}, left
    for _ in range(CYCLE_LENGTH_MAX):
        waiting = {
            name: job.data["depends_on"]
            for name, job in work.records.views.records(ahead).items()
            if job.state == State.PENDING and not job.data["met"]
        }
        graph |= waiting
        seen |= ahead
        ahead = {name for after in waiting.values() for name in after if name not in seen}
        if not ahead:
            break
    return sorted(left & {job, *Dependencies(graph).starved_by([job])})
