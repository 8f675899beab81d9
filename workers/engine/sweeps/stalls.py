"""Fires timers that are due, and reminds.

What it can get wrong: nothing is early, but with no beat or no worker up it is late.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial

from interlock.kernel.effect import Kind
from interlock.kernel.errors import FencedError, IllegalTransitionError, UnknownRecordError
from interlock.kernel.event import Cause
from interlock.kernel.store.commands import Call, Warrant
from interlock.kernel.store.indexes import TimerLook
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.sweeper import Sweep, act_on_each

ACTOR = "stalls"


def run(dispatch: Dispatch, partition: int) -> Counter[str]:
    """Take what is due in one partition and act on each."""
    members = dispatch.indexes.due_timers(partition, dispatch.settings.sweep_batch)
    if not members:
        return Counter()
    looks = dispatch.indexes.take_timers(partition, members)
    acts: dict[str, Callable[[], str]] = {
        f"{look.record_id}:{look.name}": partial(_act, dispatch, look) for look in looks
    }
    return act_on_each(acts)


def _act(dispatch: Dispatch, look: TimerLook) -> str:
    if look.word != "due":
        return look.word
    try:
        record = dispatch.views.record(look.record_id)
    except UnknownRecordError:
        return "gone"
    stage = dispatch.lifecycle.machine(record.machine).stage(record.state)
    timer = stage.timer(look.name)
    warrant = Warrant.due(look.name, look.due_at, look.born)
    op_id = f"due:{look.name}:{look.born}:{look.due_at}"
    try:
        if timer is None or timer.trigger is None:
            dispatch.remind(record, look.name, warrant, look.fired, op_id)
            return "reminded"
        # What drains was begun in a state before.
        begun = any(
            one.kind is Kind.STATE and one.attempts > 0 and one.state != "draining"
            for one in record.entries
        )
        undone = timer.deltas_when(record.data, begun=begun)
        call = Call(Cause(ACTOR, f"{look.name} is due"), op_id, warrant, undone)
        dispatch.fire(record, str(timer.trigger), timer.payload_when(begun=begun), call)
    except (FencedError, IllegalTransitionError):
        return "moved on"
    return "fired"


SWEEP = Sweep("stalls", run)
