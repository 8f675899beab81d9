"""What every request needs: the client with the caller's name, and the version that it saw."""

from __future__ import annotations

import re
from copy import copy
from typing import Annotated

from fastapi import Depends, Header, Request

from interlock.kernel.errors import InvalidPayloadError
from interlock.kernel.record import Record
from interlock.workers.api.loopback import is_loopback
from interlock.workers.api.models import record_body
from interlock.workers.api.problems import NO_VERSION, STALE, WRONG_HOST, RefusedRequestError
from interlock.workers.client import Client

ACTOR_MAX = 100
_ACTOR = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@~-]*")
ActorHeader = Annotated[
    str, Header(alias="X-Interlock-Actor", description="The name in the log, as it is claimed.")
]
IfMatch = Annotated[
    str | None, Header(alias="If-Match", description="The ETag of the record that you saw.")
]
IfNoneMatch = Annotated[str | None, Header(alias="If-None-Match")]
KEY = "Idempotency-Key"
Key = Annotated[
    str | None,
    Header(
        alias=KEY,
        description="The same for each repetition of one call, which then takes effect once.",
        min_length=1,
        max_length=200,
    ),
]
NewId = Annotated[str, Header(alias=KEY, description="The id of the new record.", max_length=200)]


def client_of(request: Request, actor: ActorHeader = "producer") -> Client:
    """Return the client of this process, acting under the name that the caller claims.

    A page of another site cannot act or read here, even if it gives its own name this address.
    """
    if not is_loopback(request.url.hostname or ""):
        raise RefusedRequestError(WRONG_HOST, f"call it by 127.0.0.1, not {request.url.hostname}")
    if len(actor) > ACTOR_MAX or not _ACTOR.fullmatch(actor):
        problem = "use up to 100 letters, digits and ._@~-, beginning with a letter or digit"
        raise InvalidPayloadError("X-Interlock-Actor", [problem])
    client: Client = copy(request.app.state.client)
    client.actor = actor
    return client


Acting = Annotated[Client, Depends(client_of)]


def etag(version: int) -> str:
    """Return the version of a record as an ETag."""
    return f'"{version}"'


def check_version(record: Record, if_match: str | None) -> None:
    """Refuse a call about a record that has changed since its caller read it."""
    if if_match is None:
        detail = "send the header If-Match with the ETag of the record that you saw"
        raise RefusedRequestError(NO_VERSION, detail)
    if if_match != etag(record.version):
        detail = f"you saw version {if_match}, and it is at {etag(record.version)} now"
        current = record_body(record).model_dump(mode="json")
        raise RefusedRequestError(STALE, detail, current=current)
