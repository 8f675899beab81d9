"""Rejected messages: no worker can act on them, so they are kept and counted for people."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from interlock.kernel.errors import CallError
from interlock.kernel.store.keys import Keys
from interlock.kernel.store.scripts import Client, call, read

KEPT_BYTES_MAX = 64 * 1024 * 1024  # of all together; then the oldest are dropped
BODY_BYTES_MAX = 1024 * 1024  # of a longer body the beginning is kept
_ID = re.compile("[0-9]{1,15}-[0-9]{1,15}")


@dataclass(frozen=True, slots=True)
class RejectedMessage:
    """One message: the kind of its fault, a sentence for people, and its body.

    The body is JSON where `verb` says what the message asked for, and otherwise any text.
    """

    id: str
    kind: str
    reason: str
    body: str
    verb: str = ""

    @property
    def at_ms(self) -> int:
        """When it was rejected, by the store."""
        return int(self.id.partition("-")[0])


class RejectedMessages:
    """The messages and the counts, over one client."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self.client, self.keys = client, keys

    def put(self, kind: str, reason: str, body: object, *, verb: str = "") -> int:
        """Keep a rejected message. Returns how many of its kind there have been.

        `verb` is what it asked for, if that can be asked for again.
        """
        text, whole = _text(body)
        plan = {
            "kind": kind,
            "reason": _encoded(reason)[:BODY_BYTES_MAX],
            "body": text,
            "verb": verb if whole else "",
            "bytes_max": KEPT_BYTES_MAX,
        }
        named = self._named() | {"counts": self.keys.rejected_counts()}
        count: int = call(self.client, "reject", named, plan)[0]
        return count

    def counts(self) -> dict[str, int]:
        """Return how many messages were rejected, by kind."""
        pairs = read(self.client, "HGETALL", self.keys.rejected_counts())
        return {name.decode(): int(count) for name, count in dict(pairs).items()}

    def kept(self) -> int:
        """Return how many messages are kept."""
        return int(read(self.client, "XLEN", self.keys.rejected()))

    def newest(self, limit: int, *, before: str = "") -> list[RejectedMessage]:
        """Return the messages that are kept, the newest first: those before the id of one."""
        end = f"({before}" if before else "+"
        rows = read(self.client, "XREVRANGE", self.keys.rejected(), end, "-", "COUNT", limit)
        return [_message(*row) for row in rows]

    def message(self, message_id: str) -> RejectedMessage:
        """Return one message. Raises CallError if it is not kept."""
        if not _ID.fullmatch(message_id):
            raise CallError(f"{message_id!r} is no id of a rejected message")
        rows = read(self.client, "XRANGE", self.keys.rejected(), message_id, message_id)
        if not rows:
            raise CallError(f"there is no rejected message {message_id}: it may have been dropped")
        return _message(*rows[0])

    def drop(self, message_id: str) -> None:
        """Drop a message that somebody has dealt with. Raises CallError if it is not kept."""
        self.message(message_id)
        call(self.client, "drop_rejected", self._named(), {"id": message_id})

    def _named(self) -> dict[str, str]:
        return {"rejected": self.keys.rejected(), "bytes": self.keys.rejected_bytes()}


def _text(body: object) -> tuple[bytes, bool]:
    """Return a body as text, and whether that is JSON of the whole of it."""
    try:
        text = body if isinstance(body, str) else json.dumps(body, allow_nan=False)
        whole = not isinstance(body, str)
    except (TypeError, ValueError, RecursionError):
        text, whole = repr(body), False
    encoded = _encoded(text)
    return encoded[:BODY_BYTES_MAX], whole and len(encoded) <= BODY_BYTES_MAX


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")


def _message(message_id: bytes, fields: Any) -> RejectedMessage:
    # The library returns a mapping or pairs in a row, by its version and by the protocol.
    if not isinstance(fields, dict):
        fields = dict(zip(fields[::2], fields[1::2], strict=True))
    found = {name.decode(): value.decode("utf-8", "replace") for name, value in fields.items()}
    return RejectedMessage(
        message_id.decode(), found["kind"], found["reason"], found["body"], found["verb"]
    )
