"""Carries an end through a family: up when the last child ended, down when a parent is closed."""

from __future__ import annotations

from interlock.kernel.effect import Kind
from interlock.kernel.errors import CallError, UnknownRecordError
from interlock.kernel.event import Cause
from interlock.kernel.record import Record
from interlock.kernel.store.commands import Call
from interlock.kernel.store.subscriptions import MISSING, Dependent
from interlock.kernel.table import Terminal, Waiting
from interlock.workers.engine.work import Outcome, Work


def cascade(work: Work) -> Outcome | None:
    """Advance a parent with the tally of its children, close children, or recheck a countdown."""
    if work.lease.kind is Kind.ADVANCE:
        return advance(work)
    record = work.dispatch.views.record(work.record.id)
    if isinstance(work.machine.stage(record.state), Terminal):
        close(work, record)
    else:
        recheck(work, record)
    return None


def advance(work: Work) -> Outcome | None:
    """Fire the end of a countdown, unless the record has moved on from it."""
    generation, _, name = work.lease.suffix.partition(":")[0].partition(".advance.")
    machine, record = work.machine, work.record
    ended = {"tally": work.dispatch.views.tally(record.id, f"{name}:{generation}")}
    stage = machine.stage(record.state)
    if name in machine.lasting_countdowns:
        # It counts for the record in whatever state, as long as anything is left to wait for.
        waits = bool(machine.explain(record, machine.advance_trigger, ended).target)
    else:
        here = isinstance(stage, Waiting) and stage.countdown == name
        waits = here and str(record.entered) == generation
    return Outcome(machine.advance_trigger, ended) if waits else None


def close(work: Work, record: Record) -> None:
    """Close every child that still lives; each closes its own. A second pass finds nothing."""
    trigger = work.machine.close_trigger
    cause = Cause("cascade", f"{record.id} is {record.state}")
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
            over = isinstance(work.machine.stage(child.state), Terminal)
            # What is being judged or recovered comes to its end by itself.
            assert over or trigger not in work.machine.legal(child.state), "what closes is closed"


def recheck(work: Work, record: Record) -> None:
    """Compare a countdown with the children: what ended and is still counted leaves it now."""
    stage = work.machine.stage(record.state)
    if not (isinstance(stage, Waiting) and stage.countdown):
        return
    counting = Dependent.of(record, f"{stage.countdown}:{record.entered}")
    for member in work.dispatch.views.counted(record.id, counting.countdown) - {"*"}:
        work.raise_if_stopped()
        try:
            child = work.dispatch.views.record(member)
        except UnknownRecordError:
            work.dispatch.leave_countdown(counting, member, MISSING)
            continue
        if isinstance(work.machine.stage(child.state), Terminal):
            work.dispatch.leave_countdown(counting, member, child.state)
