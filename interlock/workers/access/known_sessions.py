"""Knows who is signed in by a session that comes often, without asking the store each time."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import NamedTuple

from interlock.kernel.store.people import USE_PERIOD_MS
from interlock.workers.access.keyring import Keyring, holder_of
from interlock.workers.access.roles import Caller
from interlock.workers.engine.kept import Kept
from interlock.workers.engine.sessions import digest_of

KNOWN_MAX = 1_000  # sessions that are known at once: those found longest ago are dropped


class KnownSession(NamedTuple):
    """Who is signed in, what had been ended and revoked then, and until when (ms) it is known."""

    holder: Caller
    ends: tuple[int, int]
    until_ms: int


class KnownSessions:
    """The sessions that came within a minute, which is how often the use of a token is noted.

    All who ask share one look a second at whether any session was ended or any token revoked. So a
    session that is ended, or whose token is revoked or expires, is refused within a second. Safe in
    threads.
    """

    def __init__(self, keyring: Keyring, now_ms: Callable[[], int], kept_s: float = 1.0) -> None:
        self._keyring, self._lock = keyring, Lock()
        self._looked = Kept(lambda: (self._ends(), now_ms()), kept_s)
        self._known: dict[str, KnownSession] = {}

    def caller(self, secret: str) -> Caller:
        """Return who is signed in by the session with this secret. Raises TokenRefusedError."""
        # Looked up before the session is: an end that comes between is seen by the next look.
        ends, now_ms = self._looked.value()
        digest = digest_of(secret)
        known = self._known.get(digest)
        if known is None or known.ends != ends or known.until_ms <= now_ms:
            token, until_ms = self._keyring.token_of(secret), now_ms + USE_PERIOD_MS
            if token.expires_ms:
                until_ms = min(until_ms, token.expires_ms)
            known = KnownSession(holder_of(token), ends, until_ms)
            with self._lock:
                self._known.pop(digest, None)
                self._known[digest] = known
                while len(self._known) > KNOWN_MAX:
                    del self._known[next(iter(self._known))]
        return known.holder

    def _ends(self) -> tuple[int, int]:
        return self._keyring.tokens.count_revoked(), self._keyring.sessions.count_ended()
