"""Notifies the records that wait for a record's end, in any partition."""

from __future__ import annotations

from interlock.kernel.errors import (
    AnotherVersionError,
    CallError,
    HeldError,
    TableFunctionError,
    UnknownRecordError,
)
from interlock.kernel.event import Cause
from interlock.kernel.payload import RecordEnd
from interlock.kernel.store.commands import Call, Warrant
from interlock.kernel.store.subscriptions import Subscriber
from interlock.workers.engine.awaited import end_of, report_end
from interlock.workers.engine.work import EffectWork

COMPONENT = "notification"


def notification(work: EffectWork) -> None:
    """Notify every record that has subscribed to the end of this one. Repeating it changes nothing.

    One that cannot be notified now keeps none of the others waiting; it is notified again later.
    """
    end = end_of(work.machine, work.record)
    failures: list[Exception] = []
    for dependent in work.dispatch.subscriptions.subscribers(work.record.id):
        work.raise_if_stopped()
        try:
            notify(work, dependent, end)
        except (AnotherVersionError, HeldError, TableFunctionError) as failure:
            failures.append(failure)
    if failures:
        raise failures[0]


def notify(work: EffectWork, dependent: Subscriber, end: RecordEnd) -> None:
    """Fire the end in a record that waits for it, or take this record out of its countdown.

    A loss is fired before that, so that it is known when the countdown ends.
    """
    if not dependent.countdown:
        fire_end(work, dependent, end)
        return
    if not end.is_success:
        fire_loss(work, dependent)
    work.dispatch.lifecycle.leave_countdown(dependent, work.record.id, end.state)


def fire_end(work: EffectWork, dependent: Subscriber, end: RecordEnd) -> None:
    """Fire in a waiting record that this record has ended; note a refusal here.

    The table of one waiting record may be wrong; the others are notified all the same.
    """
    try:
        waiting = work.dispatch.views.record(dependent.id)
        refusal = report_end(work.dispatch, waiting, end, COMPONENT, work.key)
    except UnknownRecordError:
        return  # it has ended long ago
    except (CallError, TableFunctionError) as failure:
        refusal = str(failure)
    if refusal:
        work.audit("notification_refused", {"subscriber": dependent.id, "why": refusal})


def fire_loss(work: EffectWork, dependent: Subscriber) -> None:
    """Fire in a waiting record that this record ended without success; note a refusal here."""
    record = work.record
    waits_for = work.dispatch.lifecycle.machine(dependent.machine).prerequisites
    assert waits_for, "who subscribes to an end has prerequisites"
    call = Call(
        cause=Cause(COMPONENT),
        op_id=f"{work.key}:{dependent.id}",
        warrant=Warrant.component(COMPONENT),
    )
    loss = {"dependency": record.id, "state": record.state}
    try:
        work.dispatch.lifecycle.fire(dependent.id, waits_for.lost_trigger, loss, call)
    except CallError as refusal:
        work.audit("notification_refused", {"subscriber": dependent.id, "why": str(refusal)})
