"""Lets a record wait for the end of another one, of any machine."""

from __future__ import annotations

from interlock.kernel.effect import AWAITING
from interlock.kernel.errors import InvalidIdError
from interlock.kernel.payload import RecordEnd
from interlock.kernel.record import Record, record_id
from interlock.kernel.store.subscriptions import PRUNED, Subscriber
from interlock.workers.engine.awaited import awaited_by, end_of, report_end
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.work import EffectWork

NO_ID = "no id"  # what became of a record whose id can be none


def awaiting(work: EffectWork) -> None:
    """Subscribe a record to the end that it waits for; if that has come already, report it.

    Repeating it changes nothing: a reminder does so while the record waits, in case a notification
    was lost. A record that does not exist yet is subscribed to as well.
    """
    record = work.dispatch.views.record(work.record.id)
    waits = awaited_by(work.machine, record)
    end = _end_come(work.dispatch, record, waits[1]) if waits and waits[1] else None
    if end and (refusal := report_end(work.dispatch, record, end, AWAITING.name, work.key)):
        work.audit("end_refused", {"record": end.record, "why": refusal})


def _end_come(dispatch: Dispatch, record: Record, target: str) -> RecordEnd | None:
    """Subscribe to the end of a record; return that end where it has come already."""
    try:
        target = record_id(target)
    except InvalidIdError:
        return RecordEnd(record=target, state=NO_ID, is_success=False)
    status, state = dispatch.subscriptions.subscribe_ahead(target, Subscriber.of(record))
    if status == PRUNED:
        return RecordEnd(record=target, state=PRUNED, is_success=False)
    if not state:
        return None
    ended = dispatch.views.record(target)
    return end_of(dispatch.lifecycle.machine(ended.machine), ended)
