"""Updates what follows a task's state: turns, trust, subtasks, and tasks that wait for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress

from interlock import CallError, EffectWork, Terminal
from interlock.system.errors import UnknownRecordError
from interlock.system.tables import Record
from interlock.system.tables import RecordData as Data
from interlock.systems.tasks.assignment import assign
from interlock.systems.tasks.claim_names import CLAIM_STATES, ClaimNames
from interlock.systems.tasks.machines.identity.table import Trigger as IdentityTrigger
from interlock.systems.tasks.machines.ownership import SCOPE_VIOLATION
from interlock.systems.tasks.machines.task.data import TaskData
from interlock.systems.tasks.machines.task.names import State, Trigger
from interlock.systems.tasks.machines.task.subtasks import waits_for_subtasks
from interlock.systems.tasks.machines.turn.table import Trigger as TurnTrigger
from interlock.systems.tasks.waits import Waits

EARLIER_MAX = 3  # claims before the last one whose turns are ended, if they still run
NAMED_MAX = 10  # subtasks that have not ended well, on the card
# The states of subtasks that a blocked task's card tells. Subtasks in other states have not ended:
# a change from one of these to another is no news to a person, and does not change the card.
IN_WORDS: Mapping[str, str] = {
    State.FAILED: "failed",
    State.CANCELLED: "was cancelled",
    State.BLOCKED: "is blocked",
}
NOT_ENDED = "has not ended"
# Failures for changes of files that the task does not own. A refusal by the system is no violation.
VIOLATIONS = (SCOPE_VIOLATION, "breaker_scope")


def follow_up(work: EffectWork[TaskData]) -> None:
    """Update all that depends on the task's current state. A repetition finds nothing to do."""
    record = work.records.views.record(work.record.id)
    _end_turns(work, record)
    _rate_identity(work, record)
    _cancel_children(work, record)
    if record.state == State.BLOCKED:
        _unblock(work, record)
        _check_subtasks(work, record)
    if record.state in (State.CLOSED, State.CANCELLED, State.FAILED):
        _check_subtasks_of_parent(work, record)
        views = work.records.views
        for other_id in views.ids(work.machine, root=record.root, states=[State.BLOCKED]):
            work.raise_if_stopped()
            with suppress(CallError):
                _unblock(work, views.record(other_id))
    if record.state not in CLAIM_STATES:
        assign(work.records, record.root)


def _end_turns(work: EffectWork[TaskData], record: Record[TaskData]) -> None:
    """End the turns of the task's claims; their supervisors may have done so before."""
    last = int(record.data["claimed"])
    for number in range(max(1, last - EARLIER_MAX), last):
        _fail_turn(work, record, ClaimNames(record.id, number).turn)
    if last and record.state not in CLAIM_STATES:
        _end_turn(work, record, ClaimNames(record.id, last).turn)


def _end_turn(work: EffectWork[TaskData], record: Record[TaskData], turn: str) -> None:
    failure = record.data.get("failure") or {}
    if record.state == State.CLOSED:
        trigger, payload = TurnTrigger.TASK_COMPLETED, {}
    else:
        codes = {name: failure[name] for name in ("why", "abort") if failure.get(name)}
        reason = failure.get("reason") or f"its task is {record.state}"
        trigger, payload = TurnTrigger.TASK_FAILED, {"reason": reason[:2_000], **codes}
    try:
        work.records.fire(turn, trigger, payload)
    except CallError:
        # A lost supervisor left the turn in a state that cannot complete: the turn fails.
        _fail_turn(work, record, turn)


def _fail_turn(work: EffectWork[TaskData], record: Record[TaskData], turn: str) -> None:
    payload = {"reason": f"its task is {record.state} without it"}
    _fire_if_taken(work, turn, TurnTrigger.TASK_FAILED, payload)


def _rate_identity(work: EffectWork[TaskData], record: Record[TaskData]) -> None:
    """Count the outcome of a claim for the identity that held it, once for each claim."""
    claim = record.data.get("claim", {})
    trigger = _identity_trigger(record)
    if not trigger or not str(claim.get("identity", "")).startswith(f"{record.root}/"):
        return
    reason = str((record.data.get("failure") or {}).get("reason", ""))
    op_id = f"trust:{record.id}:{claim['number']}"
    with suppress(CallError):
        payload = {"task": record.id, "reason": reason}
        work.records.fire(str(claim["identity"]), trigger, payload, op_id=op_id)


def _identity_trigger(record: Record[TaskData]) -> str:
    """Return the trigger for the identity, or ''. Only verified work earns trust."""
    if record.state == State.CLOSED:
        earned = record.data.get("checked") and not record.data.get("recovered")
        return IdentityTrigger.SUCCEEDED if earned else ""
    if record.state != State.FAILED:
        return ""
    code = (record.data.get("failure") or {}).get("code")
    return IdentityTrigger.VIOLATED if code in VIOLATIONS else IdentityTrigger.FAILED


def _cancel_children(work: EffectWork[TaskData], record: Record[TaskData]) -> None:
    """Cancel the subtasks that the task's owner gave up, and no task that is not a subtask."""
    listed = record.data.get("cancel_children", ())
    own = [child for child in listed if child.rpartition("/")[0] == record.id]
    found = work.records.views.records(own, readable_by=work.records.machines)
    for child in found.values():
        if isinstance(work.machine.stage(child.state), Terminal):
            continue
        work.raise_if_stopped()
        why = f"{record.id} no longer wants it"
        producer, op_id = work.records.as_producer, f"cancel:{child.id}:{record.entered}"
        with suppress(CallError):
            producer.fire(child.id, Trigger.CANCELLED, {"reason": why}, op_id=op_id)


def _unblock(work: EffectWork[TaskData], record: Record[TaskData]) -> None:
    """Open a blocked task if its blocker is closed; show a person if it will never be closed."""
    blocked_on = record.data.get("blocked_on", {})
    if blocked_on.get("kind") != "task":
        return
    blocker: Record[TaskData] | None = None
    with suppress(UnknownRecordError):
        blocker = work.records.views.record(f"{record.root}/{blocked_on['on']}")
    if blocker is not None and blocker.state == State.CLOSED:
        _fire_if_taken(work, record.id, Trigger.UNBLOCKED, {})
    elif why := Waits(work.records, [record]).why_never_done(record, str(blocked_on["on"])):
        _fire_if_taken(work, record.id, Trigger.STARVED, {"reason": f"it waits for {why}"})


def _check_subtasks_of_parent(work: EffectWork[TaskData], subtask: Record[TaskData]) -> None:
    """Check the subtasks of a blocked parent if one did not end well, or the last has ended."""
    views, parent = work.records.views, subtask.parent
    if not (parent and subtask.counted):
        return
    if subtask.state != State.CLOSED or not views.counted(parent, subtask.counted):
        _check_subtasks(work, views.record(parent))


def _check_subtasks(work: EffectWork[TaskData], task: Record[TaskData]) -> None:
    """Let a task that is blocked on its subtasks go on if all are closed, or name the others.

    A subtask may end well after the time limit, or after a person has retried it.
    """
    if not (task.state == State.BLOCKED and waits_for_subtasks(task.data)):
        return
    views = work.records.views
    # A task may have been split before: the ids of subtasks are <task>/<split>.<number>.
    numbered = sorted((_numbers(child), child) for child in views.children(task.id))
    ids = [child for (split, _), child in numbered if split == numbered[-1][0][0]]
    if any(task.spawning(entry.suffix) for entry in task.entries) or not ids:
        return  # Not all of them exist yet.
    subtasks = views.records(ids).values()
    unfinished = [f"{one.id} {_in_words(one)}" for one in subtasks if one.state != State.CLOSED]
    tally = Counter(one.state for one in subtasks)
    payload = {"tally": tally, "unfinished": unfinished[:NAMED_MAX]}
    _fire_if_taken(work, task.id, Trigger.SUBTASKS_CHECKED, payload)


def _in_words(subtask: Record[TaskData]) -> str:
    """Return how a subtask ended. One that failed and is tried again by itself has not ended."""
    if subtask.state == State.FAILED and not subtask.data.get("given_up"):
        return NOT_ENDED
    return IN_WORDS.get(subtask.state, NOT_ENDED)


def _numbers(subtask: str) -> tuple[int, int]:
    """Return the number of the split that created a subtask, and its own."""
    split, _, number = subtask.rpartition("/")[2].partition(".")
    return int(split), int(number)


def _fire_if_taken(work: EffectWork[TaskData], record_id: str, trigger: str, payload: Data) -> None:
    """Fire a trigger; a record that does not take it any more is left as it is."""
    with suppress(CallError):
        work.records.fire(record_id, trigger, payload)
