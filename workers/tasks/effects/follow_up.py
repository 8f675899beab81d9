"""Carries a task's way out to others: its turns, its owner's trust, its parts, who waits for it."""

from __future__ import annotations

from contextlib import suppress

from interlock.kernel.errors import CallError, UnknownRecordError
from interlock.kernel.event import Cause
from interlock.kernel.record import Record, parent_of, partition_of, root_of
from interlock.kernel.store.commands import Call, Warrant
from interlock.workers.engine.work import Work
from interlock.workers.tasks.assignment import assign
from interlock.workers.tasks.claims import hopeless, party
from interlock.workers.tasks.ownership import SCOPE_VIOLATION
from interlock.workers.tasks.workplace import AT_WORK, Workplace

PARTY = "aftermath"
BLOCKED_MAX = 10_000
EARLIER_MAX = 3
# To be refused by a system (126) is no violation; to change what is another's is one.
VIOLATIONS = (SCOPE_VIOLATION, "breaker_scope")


def aftermath(work: Work) -> None:
    """Make the world match what the task is now. A repetition finds nothing to do."""
    record = work.dispatch.views.record(work.record.id)
    _end_turns(work, record)
    _judge_identity(work, record)
    _cancel_children(work, record)
    if record.state == "blocked":
        _unblock(work, record)
    if record.state in ("closed", "cancelled", "failed"):
        for other_id in work.dispatch.views.list_in_partition(
            work.machine, "blocked", partition_of(record.id), BLOCKED_MAX
        ):
            work.raise_if_stopped()
            if root_of(other_id) == root_of(record.id):
                with suppress(CallError):
                    _unblock(work, work.dispatch.views.record(other_id))
    if record.state not in AT_WORK:
        assign(work.dispatch, root_of(record.id))


def _end_turns(work: Work, record: Record) -> None:
    """Tell the turns of its claims how they came out; their keepers may have said so before."""
    last = int(record.data["claimed"])
    for number in range(max(1, last - EARLIER_MAX), last):
        _lost(work, record, Workplace(record.id, number).turn)
    if last and record.state not in AT_WORK:
        _end_turn(work, record, Workplace(record.id, last).turn)


def _end_turn(work: Work, record: Record, turn: str) -> None:
    failure = record.data.get("failure") or {}
    if record.state == "closed":
        trigger, payload = "task_completed", {}
    else:
        told = {name: failure[name] for name in ("why", "abort") if failure.get(name)}
        reason = failure.get("reason") or f"its task is {record.state}"
        trigger, payload = "task_failed", {"reason": reason[:2_000], **told}
    try:
        work.dispatch.fire(turn, trigger, payload, party(PARTY, trigger, turn))
    except CallError:
        # A lost keeper left it where nothing is completed: then it ends as what was given up.
        _lost(work, record, turn)


def _lost(work: Work, record: Record, turn: str) -> None:
    lost = {"reason": f"its task is {record.state} without it"}
    with suppress(CallError):
        work.dispatch.fire(turn, "task_failed", lost, party(PARTY, "task_failed", turn))


def _judge_identity(work: Work, record: Record) -> None:
    """Count what a claim came to for who did it, once. Only what was verified earns trust."""
    claim = record.data.get("claim") or {}
    deed = _deed(record)
    if not deed or not str(claim.get("identity", "")).startswith(f"{root_of(record.id)}/"):
        return
    reason = str((record.data.get("failure") or {}).get("reason", ""))
    op_id = f"trust:{record.id}:{claim['number']}"
    call = Call(Cause(PARTY, reason), op_id, Warrant.party(PARTY))
    with suppress(CallError):
        told = {"task": record.id, "reason": reason}
        work.dispatch.fire(str(claim["identity"]), deed, told, call)


def _deed(record: Record) -> str:
    if record.state == "closed":
        earned = record.data.get("checked") and not record.data.get("recovered")
        return "succeeded" if earned else ""
    if record.state != "failed":
        return ""
    code = (record.data.get("failure") or {}).get("code")
    return "violated" if code in VIOLATIONS else "failed"


def _cancel_children(work: Work, record: Record) -> None:
    """End the parts that their owner gave up; only its own, and those that have not ended."""
    for child in record.data.get("cancel_children", ()):
        if parent_of(child) != record.id:
            continue
        why = f"{record.id} no longer wants it"
        call = Call(Cause(PARTY, why), f"cancel:{child}:{record.entered}")
        with suppress(CallError):
            work.dispatch.fire(child, "cancelled", {"reason": why}, call)


def _unblock(work: Work, record: Record) -> None:
    """Open a task again whose blocker is done, or show a person that it never will be."""
    on = record.data.get("blocked_on") or {}
    if on.get("kind") != "task":
        return
    blocker: Record | None = None
    with suppress(UnknownRecordError):
        blocker = work.dispatch.views.record(f"{root_of(record.id)}/{on['on']}")
    if blocker is not None and blocker.state == "closed":
        with suppress(CallError):
            work.dispatch.fire(record.id, "unblocked", {}, party(PARTY, "unblocked", record.id))
    elif why := hopeless(work.dispatch, record, str(on["on"])):
        with suppress(CallError):
            told = {"reason": f"it waits for {why}"}
            work.dispatch.fire(record.id, "starved", told, party(PARTY, "starved", record.id))
