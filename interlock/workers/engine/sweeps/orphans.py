"""Finds effects that no worker runs: publishes them again, or fires their crash or exhaustion.

What it can get wrong: a live holder that does not renew for a whole lease looks lost. Its effect is
then published again; its token stays valid until another worker claims, or until a sweep, once
the grace of the holder is over, gives the slot of the effect away or finds the record paused.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import replace
from functools import cache, partial

from interlock.kernel.errors import (
    FencedError,
    HeldError,
    IllegalTransitionError,
    TableFunctionError,
    UnknownStateError,
)
from interlock.kernel.event import Cause
from interlock.kernel.machine import Machine
from interlock.kernel.record import Record, split_key
from interlock.kernel.shown_stage import knows
from interlock.kernel.store.commands import Call, Warrant
from interlock.kernel.store.indexes import DueEffect
from interlock.kernel.store.views import WORKER_LOST
from interlock.kernel.table import Active
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.records import Records
from interlock.workers.engine.sweeper import Sweep, fire, left_to_others, poll_and_act
from interlock.workers.engine.task_events import show_lost

log = logging.getLogger(__name__)

ACTOR = "orphans"
DETAIL_MAX = 2_000
QUEUE_LENGTH_LONG = 1_000
REPUBLISH_DELAY_MS = 15 * 60_000


def due(records: Records) -> list[int]:
    """Return the partitions with a due effect, after a note in each that this sweep passes."""
    dispatch = records.dispatch
    dispatch.passes.note()
    return dispatch.indexes.partitions_with(dispatch.keys.effects, dispatch.views.now_ms())


def run(records: Records, partition: int) -> Counter[str]:
    """Poll the due effects of one partition, and act on each."""
    dispatch = records.dispatch
    server = dispatch.passes.check_server(partition, passing=True)
    members = dispatch.indexes.due_effects(partition, dispatch.settings.sweep_batch)
    poll = partial(
        dispatch.indexes.poll_effects, partition, gate_open=server.gate_open, server=server.server
    )
    return poll_and_act(members, poll, partial(_act, dispatch, QueueLengths(dispatch)))


class QueueLengths:
    """The lengths of queues during one sweep, read only if a message would be published."""

    def __init__(self, dispatch: Dispatch) -> None:
        self.length = dispatch.publisher.queue_length
        self.now_ms = cache(dispatch.views.now_ms)

    def still_queued(self, name: str, since_ms: int) -> bool:
        """Whether an effect's message is most likely still in its queue.

        Publishing it again would only lengthen a long queue. After REPUBLISH_DELAY_MS it is
        published all the same, because the message may be lost.
        """
        return (
            self.length(name) >= QUEUE_LENGTH_LONG and self.now_ms() - since_ms < REPUBLISH_DELAY_MS
        )


def _act(dispatch: Dispatch, queues: QueueLengths, due: DueEffect) -> str:
    with left_to_others(dispatch, dispatch.keys.effects, due.key):
        match due.status:
            case "publish":
                return _publish(dispatch, queues, due)
            case "crash" | "exhausted":
                return _fire(dispatch, due)
            case _:
                return due.status


def _publish(dispatch: Dispatch, queues: QueueLengths, due: DueEffect) -> str:
    message = due.message
    machine = dispatch.machines.get(message.machine)
    if machine and message.name not in machine.effects:
        queue = dispatch.tables_elsewhere.queue(machine.name, message.name)
        if queue is None:
            return _rename(dispatch, machine, due)
        message = replace(message, queue=queue)
    queue = dispatch.publisher.queue(message)
    if queues.still_queued(queue, due.since_ms):
        return "in line"
    return "published" if dispatch.publish([message]) else "not published"


def _rename(dispatch: Dispatch, machine: Machine, due: DueEffect) -> str:
    """Move a record whose effect has another name now: it is due again under that name.

    Raises AnotherVersionError where only a table that was applied just now may know it.
    """
    try:
        record = dispatch.lifecycle.mover.move(split_key(due.key)[0])
    except (HeldError, TableFunctionError) as refusal:
        log.warning("%s is not published: %s", due.key, refusal)
        return "not published"
    if not knows(machine, record.state):
        raise UnknownStateError(machine.name, record.state)
    names = {entry.key(record.id): entry.name for entry in record.entries}
    return "not published" if names.get(due.key) == due.message.name else "renamed"


def _fire(dispatch: Dispatch, due: DueEffect) -> str:
    record_id, suffix = split_key(due.key)
    record = dispatch.views.record(record_id)
    machine = dispatch.lifecycle.machine(record.machine)
    stage = machine.stage(record.state)
    crashed = due.status == "crash"
    trigger = (stage.crash if crashed else stage.exhausted) if isinstance(stage, Active) else None
    if trigger is None:
        return "moved on"
    warrant = (
        Warrant.lapsed(suffix, due.detail)
        if crashed
        else Warrant.exhausted(suffix, int(due.detail))
    )
    code, detail = (
        _why_not_again(dispatch, record, suffix)
        if crashed
        else ("exhausted", _why_given_up(dispatch, record, suffix, int(due.detail)))
    )
    call = Call(Cause(ACTOR, detail, (code,)), f"{due.status}:{suffix}:{due.detail}", warrant)
    try:
        fields = machine.taken_by(trigger, {"code": code, "detail": detail})
        fire(dispatch, record, str(trigger), fields, call)
    except (FencedError, IllegalTransitionError):
        return "moved on"
    show_lost(dispatch, due.key, f"{trigger}: {detail}")
    return due.status


def _why_not_again(dispatch: Dispatch, record: Record, suffix: str) -> tuple[str, str]:
    """Say why an effect has ended that may not start again: it failed, or its worker was lost."""
    failures = dispatch.views.last_failures([record], states=("lapsed",))[record.id]
    last = failures.get(suffix, WORKER_LOST)
    if last == WORKER_LOST:
        unknown = "the worker was lost while it was at work; what it did so far is unknown"
        return "lost_worker", unknown
    return "failed", f"it failed while it was at work: {last}"[:DETAIL_MAX]


def _why_given_up(dispatch: Dispatch, record: Record, suffix: str, attempts: int) -> str:
    """Say how often an effect was tried, how often its worker died, and how it failed last."""
    entry = next((entry for entry in record.entries if entry.suffix == suffix), None)
    times = f"{attempts} attempt" if attempts == 1 else f"{attempts} attempts"
    if entry is None:
        return f"given up after {times}"
    died = f", during {entry.losses} of which its worker died" if entry.losses else ""
    last = dispatch.views.last_failures([record])[record.id].get(suffix)
    why = f"; the last one: {last}" if last else ""
    return f"given up after {times}{died}{why}"[:DETAIL_MAX]


SWEEP = Sweep("orphans", due, run)
