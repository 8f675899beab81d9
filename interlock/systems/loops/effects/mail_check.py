"""Interrupts a running session for urgent mail, or starts the next session when one is due."""

from __future__ import annotations

from interlock import EffectWork, Outcome
from interlock.systems.loops.machines.loop.data import Life, LoopData
from interlock.systems.loops.machines.loop.names import State, Trigger
from interlock.systems.loops.machines.loop.payloads import Next
from interlock.systems.loops.mailbox import Mailbox


def mail_check(work: EffectWork[LoopData]) -> Outcome | None:
    """Compare the agent's unread mail and the time with the state that the agent is in now."""
    record: Life = work.records.views.record(work.record.id)
    match record.state:
        case State.RUNNING if _has_urgent_mail(work, record):
            return Outcome(Trigger.URGENT_MESSAGE)
        case State.SESSION_COMPLETE if _is_due(work, record):
            return Outcome(Trigger.WORKTREE_READY)
    return None


def _has_urgent_mail(work: EffectWork[LoopData], record: Life) -> bool:
    """Return whether there is urgent mail that no session was given."""
    return any(message.fields["urgent"] for message in Mailbox(work.records).unread(record))


def _is_due(work: EffectWork[LoopData], record: Life) -> bool:
    """Return whether the next session has to start now."""
    data = record.data
    waiting = next(Mailbox(work.records).unread(record), None) is not None
    match data["next"]:
        case Next.ON_MAIL:
            return waiting
        case Next.LATER:
            passed_ms = work.records.now_ms() - record.since_ms
            return waiting or passed_ms >= data["every_s"] * 1_000
        case _:
            return True
