"""Knows who holds tokens that are shown again and again, without asking the store each time."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from threading import Lock
from typing import NamedTuple

from interlock.kernel.store.access_tokens import USE_PERIOD_MS, AccessTokens
from interlock.workers.access.roles import Caller
from interlock.workers.access.tokens import caller_with, kept_of
from interlock.workers.engine.kept import Kept

KNOWN_MAX = 1_000  # tokens that are known at once: those found longest ago are dropped


class KnownToken(NamedTuple):
    """Who holds a token, how many tokens were revoked then, and until when (ms) it is known."""

    holder: Caller
    revoked: int
    until_ms: int


class KnownTokens:
    """The valid tokens that were shown within a minute, which is how often their use is noted.

    All who ask share one look a second at whether any token was revoked. So a token that is revoked
    or expires is refused within a second. Safe in threads.
    """

    def __init__(
        self, tokens: AccessTokens, now_ms: Callable[[], int], kept_s: float = 1.0
    ) -> None:
        self._tokens, self._lock = tokens, Lock()
        self._looked = Kept(lambda: (tokens.count_revoked(), now_ms()), kept_s)
        self._known: dict[str, KnownToken] = {}

    def caller(self, text: str) -> Caller:
        """Return who holds the token with this text. Raises TokenRefusedError."""
        # Looked up before the token is: a revocation that comes between is seen by the next look.
        revoked, now_ms = self._looked.value()
        digest = sha256(text.encode()).hexdigest()
        known = self._known.get(digest)
        if known is None or known.revoked != revoked or known.until_ms <= now_ms:
            token, until_ms = kept_of(self._tokens, text), now_ms + USE_PERIOD_MS
            if token.expires_ms:
                until_ms = min(until_ms, token.expires_ms)
            known = KnownToken(caller_with(token), revoked, until_ms)
            with self._lock:
                self._known.pop(digest, None)
                self._known[digest] = known
                while len(self._known) > KNOWN_MAX:
                    del self._known[next(iter(self._known))]
        return known.holder
