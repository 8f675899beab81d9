"""The inboxes of records: messages in the order in which they came.

How far a record has read its inbox is a field of its own data.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from interlock.kernel.effect import Effect, Kind
from interlock.kernel.record import Record
from interlock.kernel.store import codec
from interlock.kernel.store.commands import (
    Answer,
    EffectMessage,
    Limits,
    Render,
    rendered_messages,
)
from interlock.kernel.store.keys import Keys
from interlock.kernel.store.scripts import Client, call, read, read_all
from interlock.kernel.table import Data, Owed

# Read and unread messages of an inbox; those that were read are deleted first.
MAILS_MAX = 20_000
# The fields of a message that is damaged in the store, so that it hides no other.
DAMAGED: Mapping[str, Any] = {
    "sender": "",
    "kind": "damaged",
    "text": "This message is damaged in the store and cannot be read.",
    "urgent": False,
}


@dataclass(frozen=True, slots=True)
class Mail:
    """One message: its id, which orders it, when it came (ms, by the store), and its fields."""

    id: str
    at_ms: int
    fields: Mapping[str, Any]

    @staticmethod
    def order(mail_id: str) -> tuple[int, int]:
        """Return the id of a message as numbers, which are in the order of messages."""
        ms, _, n = mail_id.partition("-")
        return int(ms), int(n)


class Inboxes:
    """The inboxes of records, over one client.

    All records of a family share the inbox of their root, so a record can read on where the one
    before it, of the same name, has ended.
    """

    def __init__(self, client: Client, keys: Keys, limits: Limits) -> None:
        self.client, self.keys, self.limits = client, keys, limits

    def post(
        self,
        record: Record,
        mail: Data,
        drains: Effect,
        *,
        read_upto: str,
        op_id: str,
        render: Render,
    ) -> Answer:
        """Post a message. `detail` of the answer is its id; a repeat with its op-id gets the same.

        The answer's status is posted, replayed, reused, missing, ended (the detail is the state of
        the record) or full (the detail is the number of unread messages).
        """
        written = codec.encode(mail, "the mail")
        nonce = codec.nonce_of(op_id)
        message = EffectMessage(
            f"{record.id}:{record.version}.0:{nonce}", record.machine, drains.name, record.priority
        )
        queues, messages = rendered_messages((message,), render)
        about = {name: mail[name] for name in ("sender", "kind", "urgent") if name in mail}
        plan = {
            "id": record.id,
            "op_id": op_id,
            "digest": codec.digest("mail", written),
            "nonce": nonce,
            "length_max": MAILS_MAX,
            "read_up_to": read_upto,
            "effect_name": drains.name,
            "effect": codec.new_entry(Owed(drains, Kind.TRANSITION), fires=False),
            "poll_ms": self.limits.poll_ms,
            "window_ms": self.limits.op_window_ms,
            "mail": written,
            "detail": codec.encode(about, "the note"),
            "messages": messages,
        }
        named = self.keys.of(record.id, message_queues=queues)
        status, detail, owed = (part.decode() for part in call(self.client, "post", named, plan))
        return Answer(status, 0, owed=(message,) if owed and not messages else (), detail=detail)

    def after(self, record_id: str, cursor: str, limit: int) -> list[Mail]:
        """Return the messages after an id, the oldest first; '0-0' is before all."""
        return self.after_each({record_id: cursor}, limit)[record_id]

    def after_each(self, cursors: Mapping[str, str], limit: int) -> dict[str, list[Mail]]:
        """Return up to `limit` messages of each inbox after an id, in one round trip."""
        commands = [
            ("XRANGE", self.keys.inbox(one), f"({cursor}", "+", "COUNT", limit)
            for one, cursor in cursors.items()
        ]
        pages = zip(cursors, read_all(self.client, commands), strict=True)
        return {one: [_mail(mail_id, fields) for mail_id, fields in page] for one, page in pages}

    def some(self, wanted: Collection[tuple[str, str]]) -> dict[tuple[str, str], Mail]:
        """Return messages by record and id, in one round trip. Deleted ones are left out."""
        commands = [("XRANGE", self.keys.inbox(one), at, at) for one, at in wanted]
        pages = zip(wanted, read_all(self.client, commands), strict=True)
        return {pair: _mail(mail_id, fields) for pair, page in pages for mail_id, fields in page}

    def latest(self, record_id: str, limit: int) -> list[Mail]:
        """Return the newest messages, read or not, the newest first."""
        rows = read(self.client, "XREVRANGE", self.keys.inbox(record_id), "+", "-", "COUNT", limit)
        return [_mail(mail_id, fields) for mail_id, fields in rows]


def _mail(mail_id: bytes, fields: Mapping[bytes, bytes]) -> Mail:
    found, content = mail_id.decode(), None
    with suppress(*codec.UNREADABLE):
        content = json.loads(fields[b"mail"])
    return Mail(found, Mail.order(found)[0], content if isinstance(content, dict) else DAMAGED)
