"""Reads the events that were posted to a workspace, one after the other, and answers each."""

from __future__ import annotations

from interlock.kernel.errors import GuardRefusedError
from interlock.kernel.record import Record
from interlock.kernel.store.commands import Jot
from interlock.kernel.store.inboxes import Mail
from interlock.workers.engine.work import NotYetError, Outcome, Work
from interlock.workers.runs.posted import apply

PAGE = 100


def events(work: Work) -> None:
    """Apply what is posted, in its order. A bad event is answered, and passed."""
    while True:
        workspace = work.dispatch.views.record(work.record.id)
        if workspace.state != "open":
            return
        _be_alone(work, workspace)
        cursor = str(workspace.data["acknowledged"])
        mails = work.dispatch.inboxes.after(workspace.id, cursor, PAGE)
        if not mails:
            return
        for mail in mails:
            work.raise_if_stopped()
            if work.held.left_s <= 0 or not _read(work, workspace, mail):
                return


def _be_alone(work: Work, workspace: Record) -> None:
    """Let whoever reads already go on. Raises NotYetError, so that what it missed is read later."""
    mine = _number(work.lease.token)
    for entry in workspace.entries:
        reads = entry.name == work.lease.name and entry.state == "leased"
        if reads and entry.suffix != work.lease.suffix and _number(entry.token) < mine:
            raise NotYetError("another reads what was posted")


def _read(work: Work, workspace: Record, mail: Mail) -> bool:
    """Apply one event, answer it, and note that it is read; False where another did."""
    answer = apply(work.dispatch, workspace, mail)
    told = {"mail": mail.id, "sender": mail.said["sender"], "type": mail.said["event"]["type"]}
    kind = "event_applied" if answer.applied else "event_refused"
    jot = Jot(kind, {**told, **answer.stored()})
    work.retried(lambda: work.dispatch.note(workspace, jot, op_id=f"answer:{mail.id}"))
    try:
        work.fire(Outcome("event_read", {"upto": mail.id}))
    except GuardRefusedError:
        return False
    return True


def _number(token: str) -> int:
    return int(token.partition("-")[0])
