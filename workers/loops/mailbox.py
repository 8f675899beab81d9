"""Mail between agents and people: addressed by name, posted to the one that lives under it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import uuid4

from interlock.kernel.errors import CallError
from interlock.kernel.event import Event
from interlock.kernel.machines.loops.loop.names import SELF, Trigger
from interlock.kernel.record import Record, RecordId
from interlock.kernel.store.inboxes import Mail
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.loops.paths import is_name

OPERATOR = "operator"
PAGE = 500
LINES_MAX = 20_000  # of a log, looked back for when mail was given


class UnknownAgentError(CallError):
    """No agent lives under this name. The message says what to do."""


class Mailbox:
    """The mail of this store's agents."""

    def __init__(self, dispatch: Dispatch) -> None:
        self.dispatch = dispatch

    def living(self, name: str) -> RecordId:
        """Return the record of the agent that lives under a name. Raises UnknownAgentError."""
        if not is_name(name):
            raise UnknownAgentError(
                f"{name!r} is no agent's name: a lower-case letter, then letters, digits and -"
            )
        found = self.dispatch.views.holds(name).get(SELF)
        if found is None:
            had = self.lives(name)
            told = "has stopped; start it anew" if had else "was never started"
            raise UnknownAgentError(f"the agent {name!r} {told}")
        return RecordId(found)

    def lives(self, name: str) -> list[RecordId]:
        """Return every record of this name, the latest last."""
        machine = self.dispatch.lifecycle.machine("loop")
        found = self.dispatch.views.family(machine, name, PAGE)
        return sorted(found, key=lambda one: int(one.rpartition("/")[2]))

    def send(
        self, to: str, text: str, *, sender: str = OPERATOR, op_id: str = "", **about: Any
    ) -> str:
        """Post a message, and return its id. Repeat a call whose answer was lost with its op-id.

        `about`: kind, urgent, thread, reply_to. Raises UnknownAgentError, InvalidPayloadError,
        MailRefusedError.
        """
        mail = {"sender": sender, "recipient": to, "text": text, **about}
        return self.dispatch.post(self.living(to), mail, op_id or uuid4().hex).detail

    def unread(self, record: Record) -> Iterator[Mail]:
        """Yield the mail that no session of an agent's was given, the oldest first."""
        cursor, ahead = str(record.data["acknowledged"]), set(record.data["ahead"])
        while page := self.dispatch.inboxes.after(record.id, cursor, PAGE):
            yield from (one for one in page if one.id not in ahead)
            cursor = page[-1].id

    def listed(self, name: str, limit: int = 100) -> Sequence[Mapping[str, Any]]:
        """Return an agent's newest mail, the newest first, each with whether it was delivered.

        `delivered_at_ms` is when the session that was given it started, as far as is looked back.
        """
        lives, letters = self.lives(name), self.dispatch.inboxes.latest(name, limit)
        since_ms = min((one.at_ms for one in letters), default=0)
        # Nothing is given before it was sent. Told again, the first time is what counts.
        given = [pair for life in lives[::-1] for pair in self._deliveries(life, since_ms)]
        delivered = dict(given)
        records = self.dispatch.views.records(lives).values()
        # One that has not settled in has yet to learn what was read.
        knowing = [one for one in records if one.data.get("worktree")] or [*records]
        waits = {one.id for life in knowing[-1:] for one in self.unread(life)}
        return [
            {
                "id": one.id,
                "at_ms": one.at_ms,
                **one.said,
                "delivered": one.id not in waits,
                "delivered_at_ms": delivered.get(one.id),
            }
            for one in letters
        ]

    def _deliveries(self, life: str, since_ms: int) -> Iterator[tuple[str, int]]:
        """Yield each letter that a session was given when it started, and when that was."""
        started_ms: int | None = None
        for line in self.dispatch.views.backwards(life, LINES_MAX):
            if line.at_ms < since_ms:
                return
            if isinstance(line, Event) and line.trigger == Trigger.SESSION_STARTED:
                started_ms = line.at_ms
            elif isinstance(line, Event) and line.trigger == Trigger.PROMPT_READY and started_ms:
                yield from ((one, started_ms) for one in line.payload["letters"])
                started_ms = None
