"""Notifies the records that wait for a record's end, in any partition."""

from __future__ import annotations

from interlock.kernel.errors import CallError
from interlock.kernel.event import Cause
from interlock.kernel.store.commands import Call, Warrant
from interlock.kernel.store.subscriptions import Subscriber
from interlock.kernel.table import Terminal
from interlock.workers.engine.work import EffectWork

COMPONENT = "notification"


def notification(work: EffectWork) -> None:
    """Take the record out of every countdown that waits for it. Repeating it changes nothing.

    A loss is fired before that, so that it is known when the countdown ends.
    """
    record = work.record
    stage = work.machine.stage(record.state)
    is_loss = not (isinstance(stage, Terminal) and stage.is_success)
    for dependent in work.dispatch.subscriptions.subscribers(record.id):
        work.raise_if_stopped()
        if is_loss:
            fire_loss(work, dependent)
        work.dispatch.leave_countdown(dependent, record.id, record.state)


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
        work.dispatch.fire(dependent.id, waits_for.lost_trigger, loss, call)
    except CallError as refusal:
        work.audit("notification_refused", {"subscriber": dependent.id, "why": str(refusal)})
