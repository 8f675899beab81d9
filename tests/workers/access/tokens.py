"""Makes access tokens for tests."""

from __future__ import annotations

from interlock.workers.access.keyring import Keyring
from interlock.workers.access.tokens import make_token
from interlock.workers.client import Client
from interlock.workers.engine.sessions import sessions_of


def new_token(
    interlock: Client, *roles: str, holder: str = "ann", machines: tuple[str, ...] = ()
) -> str:
    """Return the text of a new token with these roles."""
    text, _ = make_token(
        interlock.dispatch.access_tokens,
        holder,
        roles=roles,
        machines=machines,
        known_machines=interlock.machines,
        days=1,
        made_by="root",
    )
    return text


def keyring_of(interlock: Client, owner: str = "") -> Keyring:
    """Return the tokens and sessions of a deployment."""
    dispatch = interlock.dispatch
    return Keyring(dispatch.access_tokens, sessions_of(dispatch), owner)


def new_session(
    interlock: Client, *roles: str, holder: str = "ann", machines: tuple[str, ...] = ()
) -> str:
    """Return the secret of a new session, which a browser has in its cookie."""
    text = new_token(interlock, *roles, holder=holder, machines=machines)
    return keyring_of(interlock).sign_in(text)
