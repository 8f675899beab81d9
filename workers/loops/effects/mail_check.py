"""Looks what mail and time mean for a long-lived agent as it stands now; it reads no mail out."""

from __future__ import annotations

from interlock.kernel.machines.loops.loop.names import Next, State
from interlock.kernel.record import Record
from interlock.workers.engine.work import Outcome, Work
from interlock.workers.loops.mailbox import Mailbox


def drain(work: Work) -> Outcome | None:
    """Interrupt a session for urgent mail that it was not given; begin the next that is due."""
    record = work.dispatch.views.record(work.record.id)
    match record.state:
        case State.RUNNING if _urgent(work, record):
            return Outcome("urgent_message", reason="urgent mail has come")
        case State.SESSION_COMPLETE if _due(work, record):
            return Outcome("worktree_ready")
    return None


def _urgent(work: Work, record: Record) -> bool:
    """Whether something urgent came that no session was given."""
    return any(one.said["urgent"] for one in Mailbox(work.dispatch).unread(record))


def _due(work: Work, record: Record) -> bool:
    """Whether the next session is to begin."""
    data = record.data
    waiting = next(Mailbox(work.dispatch).unread(record), None) is not None
    match data["next"]:
        case Next.ON_MAIL:
            return waiting
        case Next.LATER:
            gone_ms = work.dispatch.views.now_ms() - record.since_ms
            return waiting or gone_ms >= int(data["every_s"]) * 1_000
        case _:
            return True
