"""Carries a task's way out to others: its turn, those that wait for it, the next in line."""

from __future__ import annotations

from contextlib import suppress

from kernel.errors import CallError, UnknownRecordError
from kernel.record import Record, partition_of, root_of
from workers.fleet import assign, party
from workers.work import Work
from workers.workplace import Workplace

PARTY = "aftermath"
BLOCKED_MAX = 10_000
AT_WORK = ("claimed", "in_progress", "orphaned", "done", "pending_approval")


def aftermath(work: Work) -> None:
    """Make the world match what the task is now. A repetition finds nothing to do."""
    record = work.dispatch.views.record(work.record.id)
    if record.state not in AT_WORK and record.data["claimed"]:
        _end_turn(work, record)
    if record.state == "blocked":
        _unblock(work, record)
    if record.state == "closed":
        for other_id in work.dispatch.views.standing_in(
            work.machine, "blocked", partition_of(record.id), BLOCKED_MAX
        ):
            work.go_on()
            if root_of(other_id) == root_of(record.id):
                with suppress(CallError):
                    _unblock(work, work.dispatch.views.record(other_id))
    assign(work.dispatch, root_of(record.id))


def _end_turn(work: Work, record: Record) -> None:
    """Tell the turn of the last claim how it came out; its keeper may have said so before."""
    turn = Workplace(record.id, int(record.data["claimed"])).turn
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
        lost = {"reason": f"its task is {record.state} without it"}
        with suppress(CallError):
            work.dispatch.fire(turn, "task_failed", lost, party(PARTY, "task_failed", turn))


def _unblock(work: Work, record: Record) -> None:
    """Open a task again whose blocker is done."""
    on = record.data.get("blocked_on") or {}
    if on.get("kind") != "task":
        return
    try:
        blocker = work.dispatch.views.record(f"{root_of(record.id)}/{on['on']}")
    except UnknownRecordError:
        return
    if blocker.state in ("done", "closed"):
        with suppress(CallError):
            work.dispatch.fire(record.id, "unblocked", {}, party(PARTY, "unblocked", record.id))
