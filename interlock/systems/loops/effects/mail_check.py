"""Interrupts a running session for urgent mail, or starts the next session when one is due."""

from __future__ import annotations

from interlock import EffectWork, Outcome
from interlock.system.tables import Record
from interlock.systems.loops.machines.loop.names import State
from interlock.systems.loops.machines.loop.payloads import Next
from interlock.systems.loops.mailbox import Mailbox


def mail_check(work: EffectWork) -> Outcome | None:
    """Compare the agent's unread mail and the time with the state that the agent is in now."""
    record = work.dispatch.views.record(work.record.id)
    match record.state:
        case State.RUNNING if _has_urgent_mail(work, record):
            return Outcome("urgent_message")
        case State.SESSION_COMPLETE if _is_due(work, record):
            return Outcome("worktree_ready")
    return None


def _has_urgent_mail(work: EffectWork, record: Record) -> bool:
    """Return whether there is urgent mail that no session was given."""
    return any(message.fields["urgent"] for message in Mailbox(work.dispatch).unread(record))


def _is_due(work: EffectWork, record: Record) -> bool:
    """Return whether the next session has to start now."""
    data = record.data
    waiting = next(Mailbox(work.dispatch).unread(record), None) is not None
    match data["next"]:
        case Next.ON_MAIL:
            return waiting
        case Next.LATER:
            passed_ms = work.dispatch.views.now_ms() - record.since_ms
            return waiting or passed_ms >= int(data["every_s"]) * 1_000
        case _:
            return True
