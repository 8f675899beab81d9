"""What a deployment keeps of its people: tokens, sessions, saved views, acts, the key of links.

Of the secrets of tokens and sessions it keeps digests only.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from pydantic import TypeAdapter

from interlock.kernel.errors import CallError, TokenRefusedError
from interlock.kernel.event import Cause
from interlock.kernel.record import RecordId
from interlock.kernel.store.codec import UNREADABLE
from interlock.kernel.store.keys import Keys
from interlock.kernel.store.scripts import Client, call, read, read_all

USE_PERIOD_MS = 60_000  # the last use is noted once in this time
# The holder, the roles, the machines and who made it, as they are kept.
_TOKEN_FIELDS = TypeAdapter(tuple[str, tuple[str, ...], tuple[str, ...], str])
KEY_BYTES = 32
VIEWS_MAX = 100
_VIEW_FIELDS = TypeAdapter(tuple[str, str])  # the path and who saved it, as they are kept
ACTS_KEPT_MIN = 10_000
ACTS_READ_MAX = 1_000  # acts that are read at once
REASON_MAX = 500
ROLE = "as:"  # begins the codes of a cause that say under which role its actor acted


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
        plan = {"id": token_id, "digest": digest, "fields": fields, "lifetime_ms": lifetime_ms}
        named = {"tokens": self._tokens}
        status, created, expires = call(self.client, "keep_access_token", named, plan)
        if status != b"kept":
            raise CallError(f"there is an access token {token_id!r} already")
        return AccessToken(
            token_id, holder, tuple(roles), tuple(machines), made_by, int(created), int(expires)
        )

    def find(self, token_id: str, digest: str) -> AccessToken:
        """Return the valid token with this id and this digest of its secret, and note its use.

        Raises TokenRefusedError, also where the store has it damaged.
        """
        named = {"tokens": self._tokens, "revoked": self._revoked, "used": self._used}
        plan = {"id": token_id, "digest": digest, "period_ms": USE_PERIOD_MS}
        status, kept = call(self.client, "find_access_token", named, plan)
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
        named = {"tokens": self._tokens, "revoked": self._revoked}
        status = call(self.client, "revoke_access_token", named, {"id": token_id, "by": by})[0]
        if status != b"revoked":
            raise CallError(f"there is no access token {token_id!r}; `interlock token list`")


def _readable(
    token_id: str, kept: bytes, revoked: bytes = b"0 ", used: bytes = b"0"
) -> AccessToken | None:
    """Return a token as it is stored; None if it is damaged."""
    try:
        created, expires, _, fields = kept.decode().split(" ", 3)
        revoked_ms, _, revoked_by = revoked.decode().partition(" ")
        holder, roles, machines, made_by = _TOKEN_FIELDS.validate_json(fields)
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
        plan = {
            "digest": digest,
            "lifetime_ms": lifetime_ms,
            "token": shown.token_id,
            "token_digest": shown.digest,
        }
        call(self.client, "keep_session", {"sessions": self._sessions}, plan)

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
        named, plan = {"sessions": self._sessions, "ended": self._ended}, {"purpose": purpose}
        status, token = call(self.client, "find_session", named, plan | {"digest": digest})
        if status != b"valid":
            raise TokenRefusedError("this session has ended")
        return Shown(*token.decode().split(" "))


def link_key(client: Client, keys: Keys) -> bytes:
    """Return the key that signs links for people, the same for all processes of a deployment.

    The first call makes it. If it is deleted, all links are void.
    """
    new = secrets.token_hex(KEY_BYTES)
    (kept,) = call(client, "keep_link_key", {"link_key": keys.link_key()}, {"new": new})
    return bytes.fromhex(kept.decode())


@dataclass(frozen=True, slots=True)
class SavedView:
    """A saved view: its name, the path and query of its page, and who saved it."""

    name: str
    path: str
    saved_by: str


class SavedViews:
    """The saved views of a deployment, over one client."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self.client, self._key = client, keys.saved_views()

    def all(self) -> list[SavedView]:
        """Return every saved view, by name. One that is damaged in the store is left out."""
        views = []
        for name, text in dict(read(self.client, "HGETALL", self._key)).items():
            with suppress(*UNREADABLE):
                views.append(SavedView(name.decode(), *_VIEW_FIELDS.validate_json(text)))
        return sorted(views, key=lambda view: view.name.casefold())

    def keep(self, view: SavedView) -> None:
        """Save a view; it replaces one of the same name. Raises CallError if there are too many."""
        text = json.dumps([view.path, view.saved_by])
        if self._change(view.name, text) == b"full":
            raise CallError(f"there are {VIEWS_MAX} saved views: drop one that nobody needs")

    def drop(self, name: str) -> None:
        """Drop a view. Raises CallError if there is none with this name."""
        if self._change(name, "") == b"missing":
            raise CallError(f"there is no saved view {name!r}")

    def _change(self, name: str, text: str) -> bytes:
        plan = {"name": name, "text": text, "most": VIEWS_MAX}
        status: bytes = call(self.client, "change_saved_view", {"views": self._key}, plan)[0]
        return status


@dataclass(frozen=True, slots=True)
class PersonAct:
    """An act: a trigger that was fired, or pause, resume or retry; when (ms by the store), by whom.

    The name was proved by an access token with these roles.
    """

    position: str
    at_ms: int
    record_id: RecordId
    what: str
    by: str
    roles: str
    reason: str


class PersonActs:
    """The acts of people over all records, over one client.

    The log of each record has its acts, and is the truth. This list is written after them, so that
    an act is missing here if the process ends in between. It goes on when a record is pruned.
    """

    def __init__(self, client: Client, keys: Keys) -> None:
        self.client, self._key = client, keys.acts()

    def add(self, record_id: str, what: str, cause: Cause) -> None:
        """List an act, if its actor has proved a name. Raises StoreError."""
        roles = [code.removeprefix(ROLE) for code in cause.codes if code.startswith(ROLE)]
        if roles:
            plan = {
                "record": record_id,
                "what": what,
                "by": cause.actor,
                "roles": ", ".join(roles),
                "reason": cause.reason[:REASON_MAX],
                "length": ACTS_KEPT_MIN,
            }
            call(self.client, "list_act", {"acts": self._key}, plan)

    def latest(self, limit: int, *, before: str = "", by: str = "") -> list[PersonAct]:
        """Return acts, the latest first: those before a position, and those of one person.

        For the acts of one person the whole list may be read: a command for each ACTS_READ_MAX.
        """
        found: list[PersonAct] = []
        count, goes_on = ACTS_READ_MAX if by else limit, True
        while goes_on and len(found) < limit:
            end = f"({before}" if before else "+"
            rows = read(self.client, "XREVRANGE", self._key, end, "-", "COUNT", count)
            acts = [_act(at.decode(), dict(row)) for at, row in rows]
            found += [act for act in acts if by in ("", act.by)]
            before, goes_on = acts[-1].position if acts else before, len(acts) == count
        return found[:limit]


def _act(position: str, row: Mapping[bytes, bytes]) -> PersonAct:
    fields = {name.decode(): value.decode() for name, value in row.items()}
    return PersonAct(
        position=position,
        at_ms=int(position.partition("-")[0]),
        record_id=RecordId(fields["record"]),
        what=fields["what"],
        by=fields["by"],
        roles=fields["roles"],
        reason=fields["reason"],
    )
