"""Starts a pending job or its review if dependencies, limits and slots allow it."""

from __future__ import annotations

from typing import Any

from interlock import EffectWork, Outcome
from interlock.systems.jobs.dependencies import recount
from interlock.systems.jobs.machines.effects import SCHEDULING
from interlock.systems.jobs.machines.job import changes
from interlock.systems.jobs.machines.job.data import JobData
from interlock.systems.jobs.machines.job.names import State, Trigger
from interlock.systems.jobs.slots import (
    acquire_slots,
    graph_of,
    needed_slots,
    possible_slots,
    release_slots,
)
from interlock.systems.jobs.usage import (
    JOB,
    LimitUsage,
    is_halted,
    note_warnings,
    time_left_ms,
    usages_of_job,
)

DAY_S = 86_400
SLOT_STATES = (State.RUNNING, State.PAUSED)


def scheduling(work: EffectWork[JobData]) -> Outcome | None:
    """Schedule a job by its present state, which may have changed since this was requested."""
    match work.record.state:
        case State.PENDING if not work.record.data["met"]:
            return recount(work)
        case State.PENDING if changes.startable(work.record.data):
            return start(work)
        case State.REVIEW_REQUIRED if changes.reviewable(work.record.data):
            return review(work)
        case state if state not in SLOT_STATES:
            # A lost attempt may have taken slots, or the job was offered some, before it moved on.
            release_all_slots(work)
    return None


def start(work: EffectWork[JobData]) -> Outcome | None:
    """Start the worker if limits and slots allow it."""
    record, graph = work.record, graph_of(work.records, work.record)
    # A job whose phases are all done only reports that again, which counts as no run.
    runs = 0 if changes.finished(record.data) else 1
    found = [usage for usage in usages_of_job(record, graph) if runs or usage.limit != "iterations"]
    note_warnings(work, found)
    if reached := _own_limit_reached(found):
        return reached
    if graph is not None and is_halted(work, graph, found):
        # Jobs of other graphs may be able to use a slot that this job was offered.
        release_all_slots(work)
        _note_awaited_slots(work, [f"limit:{graph.id}"])
        return None
    hours = record.data.get("hours")
    if hours and (closed_s := closed_for_s(hours, work.records.now_ms())):
        # A lost attempt may have taken slots before the hours ended.
        release_all_slots(work)
        why = f"its worker starts from {hours.replace('-', ' to ')} UTC only"
        return Outcome(Trigger.SUSPEND, {"reason": why, "by": SCHEDULING.name, "for_s": closed_s})
    slots = needed_slots(work.records, record, graph)
    awaited = acquire_slots(work, slots)
    if awaited:
        _note_awaited_slots(work, awaited)
        return None
    scheduled: dict[str, Any] = {"slots": sorted(slots)}
    left = time_left_ms(found)
    scheduled |= {"time_left_ms": left} if left is not None else {}
    return Outcome(Trigger.SCHEDULED, scheduled, {"runs": runs} if runs else {})


def closed_for_s(hours: str, now_ms: int) -> int:
    """Return the seconds until a window of the day such as 22:00-06:00 (UTC) opens; 0 inside it.

    A window that ends when it begins is the whole day.
    """
    second = now_ms // 1_000 % DAY_S
    opens, closes = (int(time[:2]) * 3_600 + int(time[3:]) * 60 for time in hours.split("-"))
    is_open = opens <= second < closes if opens < closes else not closes <= second < opens
    return 0 if is_open else (opens - second) % DAY_S


def review(work: EffectWork[JobData]) -> Outcome | None:
    """Start the reviewer if the limits allow it, because a review may cost money as well."""
    record = work.record
    if record.data.get("review") is None:
        return Outcome(Trigger.STEP)
    graph = graph_of(work.records, record)
    found = [usage for usage in usages_of_job(record, graph) if usage.limit != "iterations"]
    note_warnings(work, found)
    if reached := _own_limit_reached(found):
        return reached
    if graph is not None and is_halted(work, graph, found):
        return None
    # The slot release of this job waits until the review is over, as both use its directory.
    release_slots(work, needed_slots(work.records, record, graph))
    left = time_left_ms(found)
    return Outcome(Trigger.STEP, {"time_left_ms": left} if left is not None else {})


def release_all_slots(work: EffectWork[JobData]) -> None:
    """Release every slot that a job may hold or wait for."""
    graph = graph_of(work.records, work.record)
    release_slots(work, possible_slots(work.records, work.record, graph))


def _own_limit_reached(found: list[LimitUsage]) -> Outcome | None:
    """Return the outcome for a job that has reached a limit of its own."""
    own = next((usage for usage in found if usage.reached and usage.owner == JOB), None)
    if own is None:
        return None
    payload = {**own.payload(), "of": own.owner}
    return Outcome(Trigger.LIMIT_REACHED, payload)


def _note_awaited_slots(work: EffectWork[JobData], slots: list[str]) -> None:
    if work.record.data.get("slots") != slots:
        work.fire(Outcome(Trigger.SLOT_AWAITED, {"slots": slots}))
