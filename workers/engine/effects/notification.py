"""Tells those who depend on a record that it has ended, in whatever partition they are."""

from __future__ import annotations

from interlock.kernel.errors import CallError
from interlock.kernel.event import Cause
from interlock.kernel.machines.jobs.job.names import State
from interlock.kernel.store.commands import Call, Warrant
from interlock.kernel.store.subscriptions import Dependent
from interlock.workers.engine.work import Work

PARTY = "tell"


def tell(work: Work) -> None:
    """Take the record out of every countdown that it is in. A repetition finds it gone.

    An end that is no success is told first: the countdown's end must find it known.
    """
    record = work.record
    for one in work.dispatch.subscriptions.dependents(record.id):
        work.raise_if_stopped()
        if record.state != State.SUCCESS:
            lose(work, one)
        work.dispatch.leave_countdown(one, record.id, record.state)


def lose(work: Work, one: Dependent) -> None:
    """Tell somebody that what it waits for will never come. A refusal is noted here."""
    record, trigger = work.record, work.machine.dependency_lost_trigger
    call = Call(
        cause=Cause(PARTY, f"{record.id} is {record.state}"),
        op_id=f"{work.key}:{one.id}",
        warrant=Warrant.party(PARTY),
    )
    try:
        work.dispatch.fire(one.id, trigger, {"dependency": record.id, "state": record.state}, call)
    except CallError as refusal:
        work.audit("tell_refused", {"target": one.id, "why": str(refusal)})
