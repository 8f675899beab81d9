"""Begins and ends the sessions of browsers, and makes the links that begin one.

The secret of a session is no access token, and the store has only a digest of it. A link has a
secret too, which is used up when the link is opened.
"""

from __future__ import annotations

import secrets
from hashlib import sha256

from interlock.kernel.store.people import Sessions, Shown
from interlock.workers.engine.dispatch import Dispatch

SESSION_S = 86_400
LINK_S = 3_600
LINK_PATH = "/login/link"
# The id of the token of the user who runs `interlock up`. Those of access tokens are hexadecimal.
OWNER = "owner"
_BROWSER, _LINK = "browser", "link"  # the secret of one kind is none of the other


def sessions_of(dispatch: Dispatch) -> Sessions:
    """Return the sessions of a deployment."""
    return Sessions(dispatch.client, dispatch.keys)


def digest_of(secret: str) -> str:
    """Return the digest of a secret of 256 random bits: so a fast one is as safe as a slow one."""
    return sha256(secret.encode(errors="replace")).hexdigest()


def shown_by_owner(token: str) -> Shown:
    """Return what the user who runs `interlock up` shows by the token of the API."""
    return Shown(OWNER, digest_of(token))


def begin_session(sessions: Sessions, shown: Shown) -> str:
    """Begin a session of who has shown a token, and return its secret."""
    return _begin(sessions, shown, _BROWSER, SESSION_S)


def find_session(sessions: Sessions, secret: str) -> Shown:
    """Return what a session is of. Raises TokenRefusedError if it has ended."""
    return sessions.find(_digest(_BROWSER, secret))


def end_session(sessions: Sessions, secret: str) -> Shown:
    """End a session, and return what it was of. Raises TokenRefusedError if it had ended."""
    return sessions.end(_digest(_BROWSER, secret))


def new_link(sessions: Sessions, address: str, token: str) -> str:
    """Return the address that signs the browser which opens it first in as the owner."""
    return f"{address}{LINK_PATH}?code={_begin(sessions, shown_by_owner(token), _LINK, LINK_S)}"


def use_link(sessions: Sessions, code: str) -> Shown:
    """Use the code of a link up, and return what it is of. Raises TokenRefusedError."""
    return sessions.end(_digest(_LINK, code))


def _begin(sessions: Sessions, shown: Shown, kind: str, lifetime_s: int) -> str:
    secret = secrets.token_urlsafe(32)
    sessions.keep(_digest(kind, secret), shown, lifetime_s * 1_000)
    return secret


def _digest(kind: str, secret: str) -> str:
    return digest_of(f"{kind} {secret}")
