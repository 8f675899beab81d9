"""Makes access tokens for tests."""

from __future__ import annotations

from interlock.workers.access.tokens import make_token
from interlock.workers.client import Client


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
