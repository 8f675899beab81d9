"""Fires timers that are due, and writes reminders.

What it can get wrong: a timer fires late while no beat or no worker is up. None fires early.
"""

from __future__ import annotations

from collections import Counter
from functools import partial

from interlock.kernel.effect import Kind
from interlock.kernel.errors import FencedError, IllegalTransitionError, UnknownRecordError
from interlock.kernel.event import Cause
from interlock.kernel.store.commands import Call, Warrant
from interlock.kernel.store.indexes import DueTimer
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.records import Records
from interlock.workers.engine.sweeper import Sweep, fire, left_to_others, poll_and_act

ACTOR = "stalls"
NOTED = ("noted", "replayed")


def due(records: Records) -> list[int]:
    """Return the partitions with a due timer."""
    dispatch = records.dispatch
    return dispatch.indexes.partitions_with(dispatch.keys.timers, dispatch.views.now_ms())


def run(records: Records, partition: int) -> Counter[str]:
    """Poll the due timers of one partition, and act on each."""
    dispatch = records.dispatch
    members = dispatch.indexes.due_timers(partition, dispatch.settings.sweep_batch)
    poll = partial(dispatch.indexes.poll_timers, partition)
    return poll_and_act(members, poll, partial(_try, dispatch))


def _try(dispatch: Dispatch, due: DueTimer) -> str:
    with left_to_others(dispatch, dispatch.keys.timers, f"{due.record_id}:{due.name}"):
        return _act(dispatch, due)


def _act(dispatch: Dispatch, due: DueTimer) -> str:
    if due.status != "due":
        return due.status
    try:
        record = dispatch.views.record(due.record_id)
    except UnknownRecordError:
        return "gone"
    stage = dispatch.lifecycle.machine(record.machine).stage(record.state)
    timer = stage.timer(due.name)
    warrant = Warrant.due(due.name, due.due_at, due.set_at_version)
    op_id = f"due:{due.name}:{due.set_at_version}:{due.due_at}"
    try:
        if timer is None or timer.trigger is None:
            answer = dispatch.lifecycle.remind(record, due.name, warrant, due.fired, op_id)
            return "reminded" if answer.status in NOTED else "moved on"
        # An effect that drains was begun in an earlier state.
        begun = any(
            entry.kind is Kind.STATE and entry.attempts > 0 and entry.state != "draining"
            for entry in record.entries
        )
        undone = timer.deltas_when(record.data, begun=begun)
        call = Call(Cause(ACTOR, f"{due.name} is due"), op_id, warrant, undone)
        fire(dispatch, record, str(timer.trigger), timer.payload_when(begun=begun), call)
    except (FencedError, IllegalTransitionError):
        return "moved on"
    return "fired"


SWEEP = Sweep("stalls", due, run)
