"""Propagates ends in a family: to a parent after its last child, to the children of a parent."""

from __future__ import annotations

from interlock.kernel.effect import Kind
from interlock.kernel.errors import CallError, UnknownRecordError
from interlock.kernel.event import Cause
from interlock.kernel.record import Record
from interlock.kernel.store.commands import Call
from interlock.kernel.store.subscriptions import MISSING, Subscriber
from interlock.kernel.table import Terminal, Waiting
from interlock.workers.engine.work import Outcome, Work


def cascade(work: Work) -> Outcome | None:
    """Advance a parent after its children, close its children, or recheck its countdown."""
    if work.lease.kind is Kind.ADVANCE:
        return advance(work)
    record = work.dispatch.views.record(work.record.id)
    if isinstance(work.machine.stage(record.state), Terminal):
        close(work, record)
    else:
        recheck(work, record)
    return None


def advance(work: Work) -> Outcome | None:
    """Fire the end of a countdown, unless the record no longer waits for it."""
    generation, _, name = work.lease.suffix.partition(":")[0].partition(".advance.")
    machine, record = work.machine, work.record
    payload = {"tally": work.dispatch.views.tally(record.id, f"{name}:{generation}")}
    stage = machine.stage(record.state)
    if machine.is_lasting(name):
        # A lasting countdown counts in any state in which its end has a transition.
        waits = bool(machine.explain(record, machine.advance_trigger, payload).target)
    else:
        current = isinstance(stage, Waiting) and stage.countdown == name
        waits = current and str(record.entered) == generation
    return Outcome(machine.advance_trigger, payload) if waits else None


def close(work: Work, record: Record) -> None:
    """Close every live child; each closes its own children. Repeating it changes nothing."""
    trigger = work.machine.close_trigger
    cause = Cause("cascade")
    for child_id in work.dispatch.views.children(record.id):
        work.raise_if_stopped()
        child = work.dispatch.views.record(child_id)
        if isinstance(work.machine.stage(child.state), Terminal):
            continue
        try:
            reason = {"reason": f"its parent {record.id} is {record.state}"}
            work.dispatch.fire(child_id, trigger, reason, Call(cause, op_id=f"close:{work.key}"))
        except CallError:
            child = work.dispatch.views.record(child_id)
            ended = isinstance(work.machine.stage(child.state), Terminal)
            # A child that is being verified or recovered ends by itself.
            legal = work.machine.legal(child.state)
            assert ended or trigger not in legal, "a child that can be closed is closed"


def recheck(work: Work, record: Record) -> None:
    """Take children that have ended, but are still counted, out of the record's countdown."""
    stage = work.machine.stage(record.state)
    if not (isinstance(stage, Waiting) and stage.countdown):
        return
    counting = Subscriber.of(record, f"{stage.countdown}:{record.entered}")
    for member in work.dispatch.views.counted(record.id, counting.countdown) - {"*"}:
        work.raise_if_stopped()
        try:
            child = work.dispatch.views.record(member)
        except UnknownRecordError:
            work.dispatch.leave_countdown(counting, member, MISSING)
            continue
        if isinstance(work.machine.stage(child.state), Terminal):
            work.dispatch.leave_countdown(counting, member, child.state)
