"""Rejected messages: no worker can act on them, so they are kept and counted for people."""

from __future__ import annotations

import json
from dataclasses import dataclass

from interlock.kernel.store.keys import Keys
from interlock.kernel.store.scripts import Client, call, read

KEPT_MAX = 1_000
BODY_MAX = 4_000


@dataclass(frozen=True, slots=True)
class RejectedMessage:
    """One message: the kind of its fault, a sentence for people, and the beginning of its body."""

    kind: str
    reason: str
    body: str


class RejectedMessages:
    """The list and the counts, over one client."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self.client, self.keys = client, keys

    def put(self, kind: str, reason: str, body: object) -> int:
        """Keep a rejected message. Returns how many of its kind there have been."""
        shown = body if isinstance(body, str) else repr(body)
        entry = {"kind": kind, "reason": reason, "body": shown[:BODY_MAX]}
        written = json.dumps(entry, ensure_ascii=True)
        names = [self.keys.rejected(), self.keys.rejected_counts()]
        count: int = call(self.client, "reject", names, [kind, written, KEPT_MAX])[0]
        return count

    def counts(self) -> dict[str, int]:
        """Return how many messages were rejected, by kind."""
        pairs = read(self.client, "HGETALL", self.keys.rejected_counts())
        return {name.decode(): int(count) for name, count in dict(pairs).items()}

    def newest(self, limit: int) -> list[RejectedMessage]:
        """Return the messages that are kept, the newest first."""
        rows = read(self.client, "LRANGE", self.keys.rejected(), 0, limit - 1)
        return [RejectedMessage(**json.loads(row)) for row in rows]
