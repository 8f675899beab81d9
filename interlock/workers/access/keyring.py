"""Finds out who shows a token, or who is signed in by the session of a browser.

The user who runs `interlock up` shows the token that `up` has made. It proves no name, so that this
user acts under any, and may do all, as who reaches the store may.
"""

from __future__ import annotations

from secrets import compare_digest

from interlock.kernel.errors import TokenRefusedError
from interlock.kernel.store.people import AccessToken, AccessTokens, Sessions, Shown
from interlock.workers.access.roles import Caller, Role
from interlock.workers.access.tokens import caller_with, shown_by
from interlock.workers.engine.sessions import (
    OWNER,
    begin_session,
    end_session,
    find_session,
    shown_by_owner,
    use_link,
)

OWNERS_TOKEN = AccessToken(OWNER, OWNER, (Role.ADMIN,), (), OWNER, 0, 0)
OWNER_CALLER = Caller(OWNER, (Role.ADMIN,), proved=False, token_id=OWNER)


class Keyring:
    """The tokens and sessions of a deployment. With `owner`, the token of `interlock up` too."""

    def __init__(self, tokens: AccessTokens, sessions: Sessions, owner: str = "") -> None:
        self.tokens, self.sessions = tokens, sessions
        self._owner = shown_by_owner(owner) if owner else None

    @property
    def has_owner(self) -> bool:
        """Whether the token of `interlock up` is accepted."""
        return self._owner is not None

    def by_token(self, text: str) -> Caller:
        """Return who shows the token with this text. Raises TokenRefusedError."""
        return holder_of(self.found(self._shown(text)))

    def by_session(self, secret: str) -> Caller:
        """Return who is signed in by a session. Raises TokenRefusedError."""
        return holder_of(self.token_of(secret))

    def token_of(self, secret: str) -> AccessToken:
        """Return the token that a session is of. Raises TokenRefusedError."""
        return self.found(find_session(self.sessions, secret))

    def found(self, shown: Shown) -> AccessToken:
        """Return the token that was shown. Raises TokenRefusedError if it is not valid here."""
        if shown.token_id != OWNER:
            return self.tokens.find(*shown)
        if self._owner is None or not compare_digest(shown.digest, self._owner.digest):
            raise TokenRefusedError("this is the token of another run of `interlock up`")
        return OWNERS_TOKEN

    def sign_in(self, text: str) -> str:
        """Begin a session of who shows a token, and return its secret. Raises TokenRefusedError."""
        return self._begin(self._shown(text))

    def sign_in_by_link(self, code: str) -> str:
        """Begin the session that a link is for, and return its secret. Raises TokenRefusedError."""
        return self._begin(use_link(self.sessions, code))

    def sign_out(self, secret: str) -> AccessToken:
        """End a session, and return the token that it was of. Raises TokenRefusedError."""
        return self.found(end_session(self.sessions, secret))

    def _begin(self, shown: Shown) -> str:
        self.found(shown)
        return begin_session(self.sessions, shown)

    def _shown(self, text: str) -> Shown:
        if self._owner is not None:
            given = shown_by_owner(text)
            if compare_digest(given.digest, self._owner.digest):
                return given
        return shown_by(text)


def holder_of(token: AccessToken) -> Caller:
    """Return who holds a token."""
    return OWNER_CALLER if token is OWNERS_TOKEN else caller_with(token)
