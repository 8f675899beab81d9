"""The calls of operators and admins: past events, rejected messages, tasks at work, tokens."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import Any
from urllib.parse import quote

import httpx2

from interlock.kernel.errors import StoreDownError
from interlock.kernel.exported_event import LifecycleEvent
from interlock.kernel.store.people import AccessToken
from interlock.kernel.store.rejected import RejectedMessage
from interlock.workers.remote.bodies import (
    each_of,
    event_of,
    fields_of,
    known,
    made_token_of,
    rejected_page_of,
)
from interlock.workers.remote.connection import ApiConnection

REJECTED_PAGE = 100
LINES_OF_JSON = "application/x-ndjson"


class OperatorCalls:
    """The part of `HttpClient` that only operators and admins need."""

    api: ApiConnection

    def past_events(
        self, scopes: Collection[str] = (), *, since_ms: int = 0
    ) -> Iterator[LifecycleEvent]:
        """Yield the events of all records until now, or of some records with all below them.

        Those of a record come in their order. StoreDownError ends it where the answer breaks off.
        """
        query = {"scope": ",".join(scopes), "since_ms": since_ms}
        answer = self.api.stream("/v1/events:export", {}, query, kind=LINES_OF_JSON)
        with closing(answer):
            try:
                for line in filter(None, answer.iter_lines()):
                    yield self.api.parsed(lambda text: event_of(json.loads(text)), line)
            except httpx2.TransportError as fault:
                problem = f"{self.api.url} did not send all events: {fault}"
                raise StoreDownError(problem) from fault

    def top(self, backlog: str = "") -> dict[str, Any]:
        """Return what `interlock top` shows: agents, tasks and queues, of one backlog or of all."""
        return self.api.call(fields_of, "GET", "/v1/top", backlog=backlog)

    def rejected(self, *, limit: int = 100) -> list[RejectedMessage]:
        """Return the rejected messages that are kept, the newest first."""
        found: list[RejectedMessage] = []
        cursor, goes_on = "", True
        while goes_on and len(found) < limit:
            size = min(limit - len(found), REJECTED_PAGE)
            page, cursor = self.api.call(
                rejected_page_of, "GET", "/v1/rejected", limit=size, cursor=cursor
            )
            found += page
            goes_on = bool(cursor)
        return found

    def rejected_message(self, message_id: str) -> RejectedMessage:
        """Return one rejected message. Raises CallError if it is not kept."""
        path = self._rejected(message_id)
        return self.api.call(partial(known, RejectedMessage), "GET", path)

    def replay(self, message_id: str) -> dict[str, Any]:
        """Do again what a rejected message asked for; it is dropped if it is accepted.

        If an answer is lost, the call is made again: it raises CallError where the message was
        accepted, for it is not kept any more.
        """
        path = self._rejected(message_id)
        return self.api.call(fields_of, "POST", f"{path}:replay", {})

    def drop(self, message_id: str) -> None:
        """Drop a rejected message for good. Raises CallError if it is not kept."""
        self.api.call(fields_of, "POST", f"{self._rejected(message_id)}:drop", {})

    def tokens(self) -> Sequence[AccessToken]:
        """Return all access tokens, the oldest first. Their secrets are not stored."""
        return self.api.call(each_of(partial(known, AccessToken)), "GET", "/v1/tokens")

    def create_token(
        self, holder: str, *, roles: Collection[str], machines: Collection[str] = (), days: int = 90
    ) -> tuple[str, AccessToken]:
        """Make an access token that lasts so many days; return its text, and what is kept of it.

        If an answer is lost, another one is made: the first, whose text nobody has, is in `tokens`.
        """
        body = {"holder": holder, "roles": [*roles], "machines": [*machines], "days": days}
        return self.api.call(made_token_of, "POST", "/v1/tokens", body)

    def revoke_token(self, token_id: str) -> None:
        """Revoke an access token for good. Raises CallError if there is none with this id."""
        self.api.call(fields_of, "POST", f"/v1/tokens/{quote(token_id, safe='')}:revoke", {})

    def _rejected(self, message_id: str) -> str:
        return f"/v1/rejected/{quote(message_id, safe='')}"
