"""Makes access tokens and finds out who shows one. A secret is shown once and never stored."""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection, Mapping

from interlock.kernel.errors import CallError, InvalidPayloadError, TokenRefusedError
from interlock.kernel.machine import Machine
from interlock.kernel.store.people import AccessToken, AccessTokens, Shown
from interlock.workers.access.roles import Caller, Role, roles_named
from interlock.workers.engine.sessions import digest_of
from interlock.workers.engine.submission import check_actor

HEAD = "il"
NAME_LENGTH_MAX = 100
LIFETIME_DAYS_MAX = 3_650
_DAY_MS = 86_400_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@~-]*")
_TOKEN = re.compile(rf"{HEAD}_([0-9a-f]{{12}})_([A-Za-z0-9_-]{{43}})")


def make_token(
    tokens: AccessTokens,
    holder: str,
    *,
    roles: Collection[str],
    machines: Collection[str],
    known_machines: Mapping[str, Machine],
    days: int,
    made_by: str,
) -> tuple[str, AccessToken]:
    """Make a token and keep it; return its text, which nobody can read again, and what is kept.

    It expires after so many days; 0 is never. Raises CallError.
    """
    check_name(holder, "the holder")
    check_actor(holder, known_machines)
    if unknown := sorted(set(machines) - set(known_machines)):
        raise CallError(f"there is no machine {unknown[0]!r}: {', '.join(known_machines)}")
    if not 0 <= days <= LIFETIME_DAYS_MAX:
        raise CallError(f"a token lasts 1 to {LIFETIME_DAYS_MAX} days, or for ever with 0")
    named = roles_named(roles)
    if Role.ADMIN in named and machines:
        raise CallError("an admin makes tokens for all machines: name none for this role")
    token_id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    kept = tokens.keep(
        token_id,
        digest_of(secret),
        holder=holder,
        roles=named,
        machines=sorted(set(machines)),
        made_by=made_by,
        lifetime_ms=days * _DAY_MS,
    )
    return f"{HEAD}_{token_id}_{secret}", kept


def caller_with(token: AccessToken) -> Caller:
    """Return who holds a token."""
    # A role that a later version has added allows nothing here.
    roles = tuple(role for role in Role if role in token.roles)
    return Caller(token.holder, roles, token.machines, token_id=token.id)


def shown_by(text: str) -> Shown:
    """Return what a caller shows by the text of an access token. Raises TokenRefusedError."""
    parts = _TOKEN.fullmatch(text)
    if parts is None:
        raise TokenRefusedError(f"an access token looks like {HEAD}_ID_SECRET")
    return Shown(parts[1], digest_of(parts[2]))


def check_name(name: str, what: str) -> None:
    """Raise InvalidPayloadError if a text cannot be the name of somebody in the log."""
    if len(name) > NAME_LENGTH_MAX or not _NAME.fullmatch(name):
        problem = (
            f"use up to {NAME_LENGTH_MAX} letters, digits and ._@~-, "
            "beginning with a letter or digit"
        )
        raise InvalidPayloadError(what, [problem])
