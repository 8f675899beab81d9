"""The claim of an external agent: its reports do what a supervisor does for other agents.

They move its turn, and confirm that it has stopped.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from interlock import CallError, Event
from interlock.system.errors import AnotherVersionError, InvalidPayloadError
from interlock.system.records import Records
from interlock.system.tables import Record
from interlock.systems.tasks.claim_names import ClaimNames, claim_names
from interlock.systems.tasks.claims import begin_turn
from interlock.systems.tasks.machines.task.data import TaskData
from interlock.systems.tasks.machines.task.names import Trigger
from interlock.systems.tasks.machines.turn.table import State as TurnState
from interlock.systems.tasks.machines.turn.table import Trigger as TurnTrigger
from interlock.systems.tasks.turn_reports import TO_VERIFICATION, TO_WORK, Way, fire_turn, lead_turn

# The way on which the turn is led after a report on the task, whatever state the turn is in.
WAYS: Mapping[str, Way] = {Trigger.STARTED: TO_WORK, Trigger.COMPLETED: TO_VERIFICATION}
# The reports on the task that fail the turn.
FAILING = (Trigger.FAILED, Trigger.BLOCKED, Trigger.SPLIT, Trigger.RELEASED)
STOP_CONFIRMED = "stop_confirmed"
# The reports on the turn itself, each with its trigger: the end of a compaction is published as
# `verify_requested`.
OWN_REPORTS: Mapping[str, str] = {
    "tool_started": TurnTrigger.TOOL_STARTED,
    "tool_completed": TurnTrigger.TOOL_COMPLETED,
    "compact_needed": TurnTrigger.COMPACT_NEEDED,
    "compacted": TurnTrigger.VERIFY_REQUESTED,
}


def confirm_stop(records: Records, key: str, token: str) -> bool:
    """Confirm that the work on a task that was taken away has ended. False if it was not taken.

    Then others may claim the task at once, and not only when the lease is over. A confirmation that
    is repeated, after a lost reply, is answered as the first one was.
    """
    task, suffix = records.effect_of(key)
    record = records.views.record(task)
    op_id = f"{token}:stopped"
    for entry in record.entries:
        if (entry.suffix, entry.token, entry.state) == (suffix, token, "draining"):
            # The note comes first: nothing else says afterwards who confirmed.
            records.note(record, STOP_CONFIRMED, {"effect": suffix}, op_id=op_id)
            records.settle(record, (suffix, token))
            return True
    return records.was_made(task, op_id)


def begin_turn_of(records: Records, task: Record[TaskData]) -> None:
    """Create the turn of a claim. The claimer's process runs already.

    A claim whose turn cannot be created, because its id is too long or taken, or because only
    another version of its table may do so, goes on without one.
    """
    names = claim_names(task)
    with suppress(AnotherVersionError, CallError):
        begin_turn(records, names)
        fire_turn(records, names.turn, TurnTrigger.AGENT_SPAWNED, {})


def follow(records: Records, key: str, task: Record[TaskData], trigger: str, reason: str) -> None:
    """Move the turn after a report on its task. `task` is the task after the report.

    A repeated report moves it too, because the process that made the first one may have crashed
    between the two. If the task was claimed again meanwhile, the effect `follow_up` ends the turn.
    """
    if _is_claimed_again(records, key):
        return
    turn = ClaimNames(task.id, int(task.data["claimed"])).turn
    # Its cleanup may have ended it meanwhile. What another version has to do, `follow_up` does.
    with suppress(AnotherVersionError, CallError):
        if trigger in WAYS:
            lead_turn(records, turn, WAYS[trigger])
        elif trigger in FAILING:
            failed = {"reason": reason or f"its agent reported {trigger}"}
            fire_turn(records, turn, TurnTrigger.TASK_FAILED, failed)


def report(
    records: Records,
    task: Record[TaskData],
    name: str,
    payload: Mapping[str, Any],
    op_id: str | None,
) -> str:
    """Fire the trigger of a report on the turn itself; return the turn's id.

    Without an op-id it is a new report. Raises CallError if the report is unknown, or if the
    turn refuses it.
    """
    if name not in OWN_REPORTS:
        known = ", ".join(OWN_REPORTS)
        raise InvalidPayloadError("the report", [f"{name!r} is unknown; known: {known}"])
    turn = ClaimNames(task.id, int(task.data["claimed"])).turn
    compacting = records.views.record(turn).state == TurnState.COMPACTING
    is_repeated = op_id is not None and records.was_made(turn, op_id)
    if name == "compacted" and not (compacting or is_repeated):
        # In any other state the same trigger would begin the verification of the work.
        raise InvalidPayloadError("the report", ["compacted: no compaction was reported before"])
    fire_turn(records, turn, OWN_REPORTS[name], payload, op_id=op_id)
    return turn


def _is_claimed_again(records: Records, key: str) -> bool:
    """Return whether a task was claimed again after the claim whose effect has this key."""
    task, suffix = records.effect_of(key)
    version = suffix.partition(".")[0]
    lines = records.views.log(task, after=f"{version}-0" if version.isdecimal() else "")
    return any(isinstance(line, Event) and line.trigger == Trigger.CLAIMED for line in lines)
