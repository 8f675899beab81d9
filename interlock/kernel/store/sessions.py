"""Keeps the sessions of browsers: a digest of each one's secret, and the token that it is of."""

from __future__ import annotations

from typing import NamedTuple

from interlock.kernel.errors import TokenRefusedError
from interlock.kernel.store.keys import Keys
from interlock.kernel.store.scripts import Client, call, read


class Shown(NamedTuple):
    """What a caller has shown: the id of a token, and a digest of the token's secret."""

    token_id: str
    digest: str


class Sessions:
    """The sessions of a deployment, over one client. Each ends with its time, or with its token."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self.client = client
        self._sessions, self._ended = keys.sessions(), keys.sessions_ended()

    def keep(self, digest: str, shown: Shown, lifetime_ms: int) -> None:
        """Keep a new session of a token."""
        call(self.client, "keep_session", [self._sessions], [digest, lifetime_ms, *shown])

    def find(self, digest: str) -> Shown:
        """Return what a session is of. Raises TokenRefusedError if it has ended."""
        return self._find(digest, "keep")

    def end(self, digest: str) -> Shown:
        """End a session, and return what it was of. Raises TokenRefusedError if it had ended."""
        return self._find(digest, "end")

    def count_ended(self) -> int:
        """Return how many sessions were ever ended before their time."""
        return int(read(self.client, "HGET", self._ended, "count") or 0)

    def _find(self, digest: str, purpose: str) -> Shown:
        names = [self._sessions, self._ended]
        status, token = call(self.client, "find_session", names, [digest, purpose])
        if status != b"valid":
            raise TokenRefusedError("this session has ended")
        return Shown(*token.decode().split(" "))
