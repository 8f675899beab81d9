"""Finds effects that nobody does: publishes them again, or fires their stage's crash or exhaustion.

What it can get wrong: a holder that lives but is silent for a whole lease looks lost. Its effect is
then published again; the old token stays good until somebody else claims.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from functools import cache, partial

from interlock.kernel.errors import (
    FencedError,
    IllegalTransitionError,
    StoreDownError,
    StoreError,
    StoreFullError,
    StoreReadOnlyError,
)
from interlock.kernel.event import Cause
from interlock.kernel.record import split_key
from interlock.kernel.store.commands import Call, Warrant
from interlock.kernel.store.indexes import Look
from interlock.kernel.table import Active
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.sweeper import Sweep, act_on_each

log = logging.getLogger(__name__)

ACTOR = "orphans"
LINE_LONG = 1_000
LINE_PATIENCE_MS = 15 * 60_000
AWAY = (StoreDownError, StoreFullError, StoreReadOnlyError)


def run(dispatch: Dispatch, partition: int) -> Counter[str]:
    """Take what is due in one partition and act on each."""
    meeting = dispatch.check_server(partition, passing=True)
    members = dispatch.indexes.due_effects(partition, dispatch.settings.sweep_batch)
    if not members:
        return Counter()
    take = partial(
        dispatch.indexes.take, partition, gate_open=meeting.gate_open, server=meeting.server
    )
    try:
        looks = take(members)
    except AWAY:
        raise
    except StoreError:
        # One corrupt entry fails the script for all: then each is taken alone.
        return act_on_each({member: partial(_alone, dispatch, take, member) for member in members})
    act = partial(_act, dispatch, Lines(dispatch))
    acts: dict[str, Callable[[], str]] = {look.key: partial(act, look) for look in looks}
    return act_on_each(acts)


class Lines:
    """The queues as one pass sees them; asked only where something would be published."""

    def __init__(self, dispatch: Dispatch) -> None:
        self.length = dispatch.queue_length
        self.now_ms = cache(dispatch.views.now_ms)

    def holds(self, name: str, since_ms: int) -> bool:
        """Whether an effect's message most likely still waits in its queue.

        To publish it again would lengthen the line, and the line the wait. After a while it is
        done all the same, for the message may be lost.
        """
        return self.length(name) >= LINE_LONG and self.now_ms() - since_ms < LINE_PATIENCE_MS


def _alone(dispatch: Dispatch, take: Callable[[list[str]], list[Look]], member: str) -> str:
    try:
        look = take([member])[0]
    except AWAY:
        raise
    except StoreError as refusal:
        log.warning("%s is corrupt and stays where it is: %s", member, refusal)
        return "failed"
    return _act(dispatch, Lines(dispatch), look)


def _act(dispatch: Dispatch, lines: Lines, look: Look) -> str:
    match look.word:
        case "publish":
            return _publish(dispatch, lines, look)
        case "crash" | "exhausted":
            return _fire(dispatch, look)
        case _:
            return look.word


def _publish(dispatch: Dispatch, lines: Lines, look: Look) -> str:
    if lines.holds(look.bell.name, look.since_ms):
        return "in line"
    return "published" if dispatch.publish([look.bell]) else "not published"


def _fire(dispatch: Dispatch, look: Look) -> str:
    record_id, suffix = split_key(look.key)
    record = dispatch.views.record(record_id)
    stage = dispatch.lifecycle.machine(record.machine).stage(record.state)
    crashed = look.word == "crash"
    trigger = (stage.crash if crashed else stage.exhausted) if isinstance(stage, Active) else None
    if trigger is None:
        return "moved on"
    warrant = (
        Warrant.lapsed(suffix, look.detail)
        if crashed
        else Warrant.exhausted(suffix, int(look.detail))
    )
    code, detail = (
        ("lost_worker", "the worker was lost while it was at work; what it did so far is unknown")
        if crashed
        else ("exhausted", f"given up after {look.detail} attempts")
    )
    call = Call(Cause(ACTOR, detail, (code,)), f"{look.word}:{suffix}:{look.detail}", warrant)
    try:
        dispatch.fire(record, str(trigger), {"code": code, "detail": detail}, call)
    except (FencedError, IllegalTransitionError):
        return "moved on"
    return look.word


SWEEP = Sweep("orphans", run)
