"""Mail between agents and people: addressed to a name, delivered to that name's current life."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from interlock import CallError, Event
from interlock.system.records import Mail, Records
from interlock.systems.loops.machines.loop.data import Life
from interlock.systems.loops.machines.loop.names import SELF, Trigger
from interlock.systems.loops.paths import is_name, name_of

OPERATOR = "operator"
PAGE = 500  # messages that are read at one time
COUNTED_MAX = 100  # messages of one agent that are counted as unread
LISTED = "`interlock agent list` names those that were started"
LINES_MAX = 20_000  # lines of a life's log that are read back to find when mail was delivered


@dataclass(frozen=True, slots=True)
class UnreadCount:
    """How much mail of an agent is unread, and how much of that is urgent.

    `is_minimum` means that there may be more, because COUNTED_MAX messages were counted.
    """

    number: int
    urgent: int
    is_minimum: bool


class UnknownAgentError(CallError):
    """There is no running agent with this name. The message says what to do."""


class Mailbox:
    """Sends and lists the mail of the agents in one store."""

    def __init__(self, records: Records) -> None:
        self.records = records

    def current_life(self, name: str) -> str:
        """Return the record of the agent that has this name now. Raises UnknownAgentError."""
        found = self.records.views.holds(name).get(SELF) if is_name(name) else None
        if found is None:
            raise UnknownAgentError(self._why_unknown(name))
        return found

    def _why_unknown(self, name: str) -> str:
        """Say why no agent has a name now, and what to do."""
        if is_name(name) and self.lives(name):
            return f"the agent {name!r} has stopped; start it anew"
        record = self.records.views.records([name]).get(name)
        if record is not None and record.machine == "loop":
            return f"{name} is a life of the agent {name_of(name)}: give that name"
        if record is not None:
            return f"{name} is of the machine {record.machine}, not a long-lived agent; {LISTED}"
        if is_name(name):
            return f"the agent {name!r} was never started; {LISTED}"
        return f"{name!r} is no agent's name: a lower-case letter, then letters, digits and -"

    def lives(self, name: str) -> list[str]:
        """Return the id of every record of this name, the latest last."""
        return [life.id for life in self.life_records(name)]

    def life_records(self, name: str) -> list[Life]:
        """Return every record of this name, the latest last."""
        if not is_name(name):
            return []
        views = self.records.views
        numbered = (life for life in views.below([name])[name] if _number(life).isdecimal())
        lives = (one for one in views.each_record(numbered) if one.machine == "loop")
        return sorted(lives, key=lambda life: int(_number(life.id)))

    def send(
        self, to: str, text: str, *, sender: str = OPERATOR, op_id: str | None = None, **fields: Any
    ) -> str:
        """Send a message and return its id. Repeat a call whose answer was lost with its op-id.

        `fields` may have kind, urgent, thread and reply_to. Raises UnknownAgentError,
        InvalidPayloadError, MailRefusedError.
        """
        mail = {"sender": sender, "recipient": to, "text": text, **fields}
        try:
            life = self.current_life(to)
        except UnknownAgentError:
            lives = self.lives(to) if op_id else []
            if not lives:
                raise
            life = lives[-1]  # it takes no mail, but answers a call that is repeated
        return self.records.post(life, mail, op_id=op_id)

    def unread(self, record: Life) -> Iterator[Mail]:
        """Yield the mail that no session of this agent was given, the oldest first."""
        cursor, ahead = record.data["acknowledged"], set(record.data["ahead"])
        while page := self.records.inboxes.after(record.id, cursor, PAGE):
            yield from (message for message in page if message.id not in ahead)
            cursor = page[-1].id

    def count_unread(self, lives: Iterable[Life]) -> dict[str, UnreadCount]:
        """Return how much mail no session of each life was given, in one round trip."""
        chosen = list(lives)
        cursors = {str(life.id): life.data["acknowledged"] for life in chosen}
        # Of the messages after the position, those ahead of it were given already.
        ahead = max((len(life.data["ahead"]) for life in chosen), default=0)
        found = self.records.inboxes.after_each(cursors, COUNTED_MAX + ahead)
        return {life.id: _unread_count(life, found[life.id]) for life in chosen}

    def newest(self, name: str, limit: int = 100) -> Sequence[Mapping[str, Any]]:
        """Return an agent's newest mail, the newest first, each with whether it was delivered.

        `delivered_at_ms` is when the session that was given the message started. It is None
        also where that session is further back in the log than LINES_MAX lines.
        """
        return self.newest_of(name, self.life_records(name), limit)

    def newest_of(
        self, name: str, lives: Sequence[Life], limit: int
    ) -> Sequence[Mapping[str, Any]]:
        """Return what `newest` returns, given every record of the name, the latest last."""
        messages = self.records.inboxes.latest(name, limit)
        # A message that was shown to several sessions counts for the first: the oldest pair of
        # its id comes last and wins in the dictionary.
        delivered_at_ms = dict(self._deliveries(lives, messages[-1].at_ms)) if messages else {}
        # A life that has no worktree yet has not inherited the read position of the one before.
        prepared = [life for life in lives if life.data.get("worktree")] or lives
        return [
            {
                "id": message.id,
                "at_ms": message.at_ms,
                **message.fields,
                "delivered": not any(_is_unread(life, message) for life in prepared[-1:]),
                "delivered_at_ms": delivered_at_ms.get(message.id),
            }
            for message in messages
        ]

    def _deliveries(self, lives: Sequence[Life], since_ms: int) -> Iterator[tuple[str, int]]:
        """Yield each message that a session was given since a time, with when that began.

        The newest comes first. A message is its id.
        """
        for life in reversed(lives):
            yield from self._deliveries_of(life, since_ms)
            if life.created_ms < since_ms:
                return  # the lives before had ended

    def _deliveries_of(self, life: Life, since_ms: int) -> Iterator[tuple[str, int]]:
        """Yield the id of each message that a session was given, with when that session started."""
        started_ms: int | None = None
        for line in self.records.views.backwards(life.id, LINES_MAX):
            if line.at_ms < since_ms:
                return
            if isinstance(line, Event) and line.trigger == Trigger.SESSION_STARTED:
                started_ms = line.at_ms
            elif isinstance(line, Event) and line.trigger == Trigger.PROMPT_READY and started_ms:
                yield from ((message_id, started_ms) for message_id in line.payload["letters"])
                started_ms = None


def _number(life: str) -> str:
    """Return what follows the name in the id of a life."""
    return life.partition("/")[2]


def _is_unread(life: Life, message: Mail) -> bool:
    """Whether no session of a life, or of those before it, was given a message."""
    is_after = Mail.order(message.id) > Mail.order(life.data["acknowledged"])
    return is_after and message.id not in life.data["ahead"]


def _unread_count(life: Life, after: Sequence[Mail]) -> UnreadCount:
    """Count up to COUNTED_MAX of the messages after the position of a life."""
    unread = [message for message in after if _is_unread(life, message)][:COUNTED_MAX]
    urgent = sum(bool(message.fields["urgent"]) for message in unread)
    return UnreadCount(len(unread), urgent, is_minimum=len(unread) == COUNTED_MAX)
