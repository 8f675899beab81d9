"""Mail between agents and people: addressed to a name, delivered to that name's current life."""

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
LINES_MAX = 20_000  # lines of a life's log that are read back to find when mail was delivered


class UnknownAgentError(CallError):
    """There is no running agent with this name. The message says what to do."""


class Mailbox:
    """Sends and lists the mail of the agents in one store."""

    def __init__(self, dispatch: Dispatch) -> None:
        self.dispatch = dispatch

    def current_life(self, name: str) -> RecordId:
        """Return the record of the agent that has this name now. Raises UnknownAgentError."""
        if not is_name(name):
            raise UnknownAgentError(
                f"{name!r} is no agent's name: a lower-case letter, then letters, digits and -"
            )
        found = self.dispatch.views.holds(name).get(SELF)
        if found is None:
            problem = "has stopped; start it anew" if self.lives(name) else "was never started"
            raise UnknownAgentError(f"the agent {name!r} {problem}")
        return RecordId(found)

    def lives(self, name: str) -> list[RecordId]:
        """Return every record of this name, the latest last."""
        machine = self.dispatch.lifecycle.machine("loop")
        found = self.dispatch.views.ids(machine, root=name)
        return sorted(found, key=lambda life: int(life.rpartition("/")[2]))

    def send(
        self, to: str, text: str, *, sender: str = OPERATOR, op_id: str = "", **fields: Any
    ) -> str:
        """Send a message and return its id. Repeat a call whose answer was lost with its op-id.

        `fields` may have kind, urgent, thread and reply_to. Raises UnknownAgentError,
        InvalidPayloadError, MailRefusedError.
        """
        mail = {"sender": sender, "recipient": to, "text": text, **fields}
        try:
            life = self.current_life(to)
        except UnknownAgentError:
            lives = self.lives(to) if op_id and is_name(to) else []
            if not lives:
                raise
            life = lives[-1]  # it takes no mail, but answers a call that is repeated
        return self.dispatch.post(life, mail, op_id or uuid4().hex).detail

    def unread(self, record: Record) -> Iterator[Mail]:
        """Yield the mail that no session of this agent was given, the oldest first."""
        cursor, ahead = str(record.data["acknowledged"]), set(record.data["ahead"])
        while page := self.dispatch.inboxes.after(record.id, cursor, PAGE):
            yield from (message for message in page if message.id not in ahead)
            cursor = page[-1].id

    def newest(self, name: str, limit: int = 100) -> Sequence[Mapping[str, Any]]:
        """Return an agent's newest mail, the newest first, each with whether it was delivered.

        `delivered_at_ms` is when the session that was given the message started. It is None
        also where that session is further back in the log than LINES_MAX lines.
        """
        lives, messages = self.lives(name), self.dispatch.inboxes.latest(name, limit)
        since_ms = min((message.at_ms for message in messages), default=0)
        # A message that was shown to several sessions counts for the first: the oldest pair of
        # its id comes last and wins in the dictionary.
        deliveries = [pair for life in lives[::-1] for pair in self._deliveries(life, since_ms)]
        delivered_at_ms = dict(deliveries)
        records = self.dispatch.views.records(lives).values()
        # A life that has no worktree yet has not inherited the read position of the one before.
        prepared = [record for record in records if record.data.get("worktree")] or [*records]
        waiting = {message.id for life in prepared[-1:] for message in self.unread(life)}
        return [
            {
                "id": message.id,
                "at_ms": message.at_ms,
                **message.fields,
                "delivered": message.id not in waiting,
                "delivered_at_ms": delivered_at_ms.get(message.id),
            }
            for message in messages
        ]

    def _deliveries(self, life: str, since_ms: int) -> Iterator[tuple[str, int]]:
        """Yield the id of each message that a session was given, with when that session started."""
        started_ms: int | None = None
        for line in self.dispatch.views.backwards(life, LINES_MAX):
            if line.at_ms < since_ms:
                return
            if isinstance(line, Event) and line.trigger == Trigger.SESSION_STARTED:
                started_ms = line.at_ms
            elif isinstance(line, Event) and line.trigger == Trigger.PROMPT_READY and started_ms:
                yield from ((message_id, started_ms) for message_id in line.payload["letters"])
                started_ms = None
