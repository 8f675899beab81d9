"""The end of another record for which a record waits."""

from __future__ import annotations

from interlock.kernel.calling import called
from interlock.kernel.errors import CallError
from interlock.kernel.event import Cause
from interlock.kernel.families import is_success
from interlock.kernel.machine import Machine
from interlock.kernel.payload import RecordEnd
from interlock.kernel.record import Record
from interlock.kernel.shown_stage import shown_stage
from interlock.kernel.store.commands import Call, Warrant
from interlock.kernel.table import AwaitedEnd, Waiting
from interlock.workers.engine.dispatch import Dispatch


def awaited_by(machine: Machine, record: Record) -> tuple[AwaitedEnd, str] | None:
    """Return what end a record waits for in its present state, and the id of the other record.

    The id is '' where the data name none yet. Raises TableFunctionError.
    """
    stage = shown_stage(machine, record.state)
    if not isinstance(stage, Waiting) or stage.awaited is None:
        return None
    name = f"the record that {record.state} waits for"
    return stage.awaited, called(machine.name, name, stage.awaited.record_id, record.data)


def end_of(machine: Machine, record: Record) -> RecordEnd:
    """Return the end of a record that has ended."""
    success = is_success(machine, record)
    return RecordEnd(record=record.id, state=record.state, is_success=success)


def report_end(
    dispatch: Dispatch, waiting: Record, end: RecordEnd, component: str, key: str
) -> str:
    """Fire at a record that the end which it waits for has come. Returns why it is refused, or ''.

    A record that does not wait for it any more is left alone. Raises TableFunctionError, and
    AnotherVersionError where only a process with another version of the table can fire it.
    """
    waits = awaited_by(dispatch.lifecycle.machine(waiting.machine), waiting)
    if waits is None or waits[1] != end.record:
        return ""
    call = Call(
        Cause(component),
        op_id=f"{key}:{waiting.id}:{waiting.entered}",
        warrant=Warrant.component(component),
    )
    try:
        dispatch.lifecycle.fire(waiting, waits[0].trigger, end.model_dump(), call)
    except CallError as refusal:
        return str(refusal)
    return ""
