"""Keeps access tokens: who holds each, what it allows, and a digest instead of its secret."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass

from pydantic import TypeAdapter

from interlock.kernel.errors import CallError, TokenRefusedError
from interlock.kernel.store.codec import UNREADABLE
from interlock.kernel.store.keys import Keys
from interlock.kernel.store.scripts import Client, call, read, read_all

USE_PERIOD_MS = 60_000  # the last use is noted once in this time
# The holder, the roles, the machines and who made it, as they are kept.
_FIELDS = TypeAdapter(tuple[str, tuple[str, ...], tuple[str, ...], str])


@dataclass(frozen=True, slots=True)
class AccessToken:
    """An access token. `holder` is the name in the log. No machines means all of them.

    Times are ms by the store; 0 means never.
    """

    id: str
    holder: str
    roles: tuple[str, ...]
    machines: tuple[str, ...]
    made_by: str
    created_ms: int
    expires_ms: int
    revoked_ms: int = 0
    revoked_by: str = ""
    used_ms: int = 0


class AccessTokens:
    """The access tokens of a deployment, over one client."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self.client = client
        self._tokens = keys.access_tokens()
        self._revoked, self._used = keys.access_tokens_revoked(), keys.access_tokens_used()

    def keep(
        self,
        token_id: str,
        digest: str,
        *,
        holder: str,
        roles: Collection[str],
        machines: Collection[str],
        made_by: str,
        lifetime_ms: int,
    ) -> AccessToken:
        """Keep a new token. Raises CallError if its id is taken; a lifetime of 0 has no end."""
        fields = json.dumps([holder, list(roles), list(machines), made_by])
        args = [token_id, digest, fields, lifetime_ms]
        status, created, expires = call(self.client, "keep_access_token", [self._tokens], args)
        if status != b"kept":
            raise CallError(f"there is an access token {token_id!r} already")
        return AccessToken(
            token_id, holder, tuple(roles), tuple(machines), made_by, int(created), int(expires)
        )

    def find(self, token_id: str, digest: str) -> AccessToken:
        """Return the valid token with this id and this digest of its secret, and note its use.

        Raises TokenRefusedError, also where the store has it damaged.
        """
        names = [self._tokens, self._revoked, self._used]
        args = [token_id, digest, USE_PERIOD_MS]
        status, kept = call(self.client, "find_access_token", names, args)
        if status != b"valid":
            raise TokenRefusedError(f"this access token is {status.decode()}")
        token = _readable(token_id, kept)
        if token is None:
            raise TokenRefusedError("this access token is damaged in the store; make a new one")
        return token

    def count_revoked(self) -> int:
        """Return how many tokens were ever revoked."""
        return int(read(self.client, "HLEN", self._revoked))

    def revoked_of(self, token_ids: Collection[str]) -> set[str]:
        """Return which of these tokens were revoked."""
        asked = list(token_ids)
        found = read(self.client, "HMGET", self._revoked, *asked) if asked else []
        return {one for one, line in zip(asked, found, strict=True) if line is not None}

    def all(self) -> list[AccessToken]:
        """Return every token that was ever kept, the oldest first.

        One that is damaged in the store is left out: nobody can use it.
        """
        names = (self._tokens, self._revoked, self._used)
        kept, revoked, used = (
            dict(found) for found in read_all(self.client, [("HGETALL", name) for name in names])
        )
        tokens = (
            _readable(one.decode(), text, revoked.get(one, b"0 "), used.get(one, b"0"))
            for one, text in kept.items()
        )
        return sorted(filter(None, tokens), key=lambda token: (token.created_ms, token.id))

    def revoke(self, token_id: str, by: str) -> None:
        """Revoke a token for good. Raises CallError if there is none with this id."""
        status = call(
            self.client, "revoke_access_token", [self._tokens, self._revoked], [token_id, by]
        )[0]
        if status != b"revoked":
            raise CallError(f"there is no access token {token_id!r}; `interlock token list`")


def _readable(
    token_id: str, kept: bytes, revoked: bytes = b"0 ", used: bytes = b"0"
) -> AccessToken | None:
    """Return a token as it is stored; None if it is damaged."""
    try:
        created, expires, _, fields = kept.decode().split(" ", 3)
        revoked_ms, _, revoked_by = revoked.decode().partition(" ")
        holder, roles, machines, made_by = _FIELDS.validate_json(fields)
        return AccessToken(
            id=token_id,
            holder=holder,
            roles=roles,
            machines=machines,
            made_by=made_by,
            created_ms=int(created),
            expires_ms=int(expires),
            revoked_ms=int(revoked_ms),
            revoked_by=revoked_by,
            used_ms=int(used),
        )
    except UNREADABLE:
        return None
