"""The claim of an agent that a user runs: its reports do what a supervisor does for other agents.

They move its turn, and confirm that it has stopped.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from interlock.kernel.errors import CallError, InvalidPayloadError
from interlock.kernel.record import Record, split_key
from interlock.kernel.store.leases import Lease
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.tasks.claim_names import ClaimNames, claim_names
from interlock.workers.tasks.claims import begin_turn, component_call
from interlock.workers.tasks.turn_reports import COMPONENT

# The triggers of the turn that follow a report on the task. A task that is completed at once was
# never reported as started. If it was, the turn refuses the first of these two.
AFTER_REPORT: Mapping[str, tuple[str, ...]] = {
    "started": ("agent_spawned",),
    "completed": ("agent_spawned", "verify_requested"),
    "failed": ("task_failed",),
    "blocked": ("task_failed",),
    "split": ("task_failed",),
    "released": ("task_failed",),
}
# The reports on the turn itself, each with its trigger: the end of a compaction is published as
# `verify_requested`.
OWN_REPORTS: Mapping[str, str] = {
    "tool_started": "tool_started",
    "tool_completed": "tool_completed",
    "compact_needed": "compact_needed",
    "compacted": "verify_requested",
}


def confirm_stop(dispatch: Dispatch, key: str, token: str) -> bool:
    """Confirm that the work on a task that was taken away has ended. False if it was not taken.

    Then others may claim the task at once, and not only when the lease is over.
    """
    task, suffix = split_key(key)
    record = dispatch.views.record(task)
    for entry in record.entries:
        if entry.suffix == suffix:
            lease = Lease(key, suffix, token, entry.attempts, entry.name, entry.kind, record, 0)
            answer = dispatch.leases.settle(lease, dispatch.render)
            dispatch.publish(answer.owed)
            return answer.status == "settled"
    return False


def begin_turn_of(dispatch: Dispatch, task: Record) -> None:
    """Create the turn of a claim. The claimer's process runs already.

    A claim whose turn cannot be created, because its id is too long or taken, goes on without one.
    """
    names = claim_names(task)
    with suppress(CallError):
        begin_turn(dispatch, names)
        _fire(dispatch, names, "agent_spawned", {})


def follow(dispatch: Dispatch, task: Record, trigger: str, reason: str) -> None:
    """Move the turn after a report on its task. `task` is the task after the report."""
    names = ClaimNames(task.id, int(task.data["claimed"]))
    for each in AFTER_REPORT.get(trigger, ()):
        failed = {"reason": reason or f"its agent reported {trigger}"}
        # A turn that its cleanup has ended meanwhile refuses it.
        with suppress(CallError):
            _fire(dispatch, names, each, failed if each == "task_failed" else {})


def report(dispatch: Dispatch, task: Record, name: str, payload: Mapping[str, Any]) -> str:
    """Fire the trigger of a report on the turn itself; return the turn's id.

    Raises CallError if the report is unknown, or if the turn refuses it.
    """
    if name not in OWN_REPORTS:
        known = ", ".join(OWN_REPORTS)
        raise InvalidPayloadError("the report", [f"{name!r} is unknown; known: {known}"])
    names = ClaimNames(task.id, int(task.data["claimed"]))
    compacting = dispatch.views.record(names.turn).state == "compacting"
    if name == "compacted" and not compacting:
        # In any other state the same trigger would begin the verification of the work.
        raise InvalidPayloadError("the report", ["compacted: no compaction was reported before"])
    _fire(dispatch, names, OWN_REPORTS[name], payload)
    return names.turn


def _fire(dispatch: Dispatch, names: ClaimNames, trigger: str, payload: Mapping[str, Any]) -> None:
    call = component_call(COMPONENT, trigger, names.turn)
    dispatch.fire(names.turn, trigger, payload, call)
