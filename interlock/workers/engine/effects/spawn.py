"""Creates the children listed in the record, each exactly once."""

from __future__ import annotations

from contextlib import suppress

from interlock.kernel.errors import CallError, ClosedParentError
from interlock.kernel.event import Cause
from interlock.kernel.store.commands import Call
from interlock.kernel.traits import Children
from interlock.workers.engine.work import Work


def spawn(work: Work) -> None:
    """Create every child in the list. A repetition skips those that exist.

    Raises IdTakenError where another record has the id of a child. The parent then waits, and a
    person is asked in the end.
    """
    record = work.record
    generation = work.lease.suffix.partition(".")[0]
    countdown = f"{record.spawning(work.lease.suffix)}:{generation}"
    cause = Cause("spawn", f"part of {record.id}")
    begins, children = work.machine.first_trigger, work.machine.waits_for
    assert isinstance(children, Children), "a machine that spawns creates children"
    listed = record.data["children"]
    ids = [f"{record.id}/{generation}.{number}" for number in range(1, len(listed) + 1)]
    for child_id, child in zip(ids, listed, strict=True):
        work.raise_if_stopped()
        payload, cap = children.payload(record.data, child, ids)
        try:
            work.dispatch.create(
                record.machine,
                child_id,
                payload,
                Call(cause),
                priority=record.priority,
                countdown=countdown,
                cap=cap,
            )
        except ClosedParentError:
            return  # the parent or its countdown has ended: no more children
        if begins:
            # A timer, a person or an earlier attempt may have begun it already, or even ended it.
            with suppress(CallError):
                work.dispatch.fire(child_id, begins, {}, Call(cause, op_id=f"begin:{child_id}"))
