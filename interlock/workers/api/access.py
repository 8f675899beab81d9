"""What every request needs: the client of a caller who may do this, and the version it saw."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Header, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.datastructures import State
from starlette.requests import HTTPConnection

from interlock.kernel.errors import (
    CallError,
    ForbiddenError,
    TokenRefusedError,
    UnknownRecordError,
)
from interlock.kernel.record import Record
from interlock.workers.access.keyring import OWNER_CALLER, Keyring
from interlock.workers.access.roles import Act, Caller, Role
from interlock.workers.access.tokens import check_name
from interlock.workers.api.loopback import host_name, is_loopback
from interlock.workers.api.models import record_body
from interlock.workers.api.problems import (
    NO_VERSION,
    OTHER_SITE,
    WRONG_HOST,
    RefusedRequestError,
)
from interlock.workers.api.rates import Rates
from interlock.workers.client import Client
from interlock.workers.engine.submission import check_actor
from interlock.workers.remote.problems import NO_TOKEN, STALE
from interlock.workers.up_file import TOKEN_FILE

IfMatch = Annotated[
    str | None, Header(alias="If-Match", description="The ETag of the record that you saw.")
]
ANY_VERSION = "*"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
OWN_SITE = ("same-origin", "none")  # of Sec-Fetch-Site; `none` is what a person typed
KEY = "Idempotency-Key"
NAME_HEADER = "X-Interlock-Actor"
Key = Annotated[
    str | None,
    Header(
        alias=KEY,
        description="The same for each repetition of one call, which then takes effect once.",
        min_length=1,
        max_length=200,
    ),
]
NewId = Annotated[
    str,
    Header(alias=KEY, description="The id of the new record.", min_length=1, max_length=200),
]
Bearer = Annotated[
    HTTPAuthorizationCredentials | None,
    Depends(HTTPBearer(auto_error=False, description="An access token of `interlock token`.")),
]
ClaimedName = Annotated[
    str | None,
    Header(
        alias=NAME_HEADER,
        description="The name in the log, where callers are not asked who they are.",
    ),
]


def who_calls(state: State, request: HTTPConnection, token: str | None) -> Caller:
    """Return who calls. Refuses a caller who shows no valid token, or who calls too often."""
    keyring: Keyring = state.keyring
    shown = None if token is None else partial(keyring.by_token, token)
    return admitted(state, request, shown, nameless="producer")


def admitted(
    state: State,
    request: HTTPConnection,
    find: Callable[[], Caller] | None,
    *,
    nameless: str,
) -> Caller:
    """Return who calls, whom `find` finds by what was shown. It is None if nothing was shown.

    `state` is that of the application: its client, and its rates. `nameless` is the name in the log
    of a caller whose name nothing proves, and who claims none. Refuses who shows nothing valid, or
    calls too often.
    """
    client: Client = state.client
    rates: Rates = state.rates
    claimed = request.headers.get(NAME_HEADER)
    if client.settings.auth == "none":
        count_by_address(state, request)
        return _claimed(request, Caller(claimed or nameless, (Role.OPERATOR,), proved=False))
    if find is None:
        count_by_address(state, request)
        raise RefusedRequestError(NO_TOKEN, f"send `Authorization: Bearer TOKEN`; {ways_in(state)}")
    try:
        found = find()
    except TokenRefusedError:
        # Only these calls are counted by address: behind a proxy, all callers may share one.
        count_by_address(state, request)
        raise
    if found is OWNER_CALLER:
        count_by_address(state, request)
        return _claimed(request, replace(found, name=claimed or nameless))
    rates.count(found.name)
    if claimed not in (None, found.name):
        sentence = f"the log has the name of the token, {found.name}; leave out the header"
        raise ForbiddenError(f"{NAME_HEADER}: {sentence}")
    return found


def ways_in(state: State) -> str:
    """Return how a caller gets a token here, as a part of a sentence."""
    keyring: Keyring = state.keyring
    if keyring.has_owner:
        return f"yours is in the file {TOKEN_FILE} of the folder of `interlock up`"
    return "`interlock token create` makes a token"


def count_by_address(state: State, request: HTTPConnection) -> None:
    """Count a call by its sender's address. Raises RefusedRequestError if that calls too often."""
    rates: Rates = state.rates
    rates.count(f"the address {request.client.host if request.client else 'unknown'}")


def _claimed(request: HTTPConnection, caller: Caller) -> Caller:
    """Return a caller whose name nothing proves.

    A page of another site cannot call here, even if it gives its own name this address, and even
    if its call has no body, before which a browser asks nobody.
    """
    host = request.headers.get("Host", "")
    if not is_loopback(host_name(host)):
        raise RefusedRequestError(WRONG_HOST, f"call it by 127.0.0.1, not {host[:100]}")
    if request.scope["method"] not in SAFE_METHODS and shows_another_site(request):
        raise RefusedRequestError(OTHER_SITE, "a browser says so; only programs call here")
    check_name(caller.name, NAME_HEADER)
    return caller


def shows_another_site(request: HTTPConnection) -> bool:
    """Whether a browser says that a page of another site, or of another port, makes a request.

    Programs that are no browser say nothing of it.
    """
    site, origin = (request.headers.get(name) for name in ("Sec-Fetch-Site", "Origin"))
    if site is not None:
        return site not in OWN_SITE
    return origin is not None and urlsplit(origin).netloc != request.headers.get("Host")


def acting(state: State, by: Caller, act: Act, record_id: str = "") -> Client:
    """Return a client that acts as a caller, on the machines that the caller may see.

    Refuses a caller who may not do this act, or may not see the record that it is about.
    """
    by.check(act)
    check_actor(by.name, state.client.dispatch.machines)
    if by.machines and act is Act.ADMINISTER:
        raise ForbiddenError(f"a token that is limited to machines may not {act}")
    client: Client = copy(state.client)
    client.actor, client.codes = by.name, by.codes
    client.run_refusal = by.refusal(Act.RUN)
    if by.machines:
        client.machines = {
            name: one for name, one in client.machines.items() if name in by.machines
        }
        if record_id and client.show(record_id).machine not in client.machines:
            raise UnknownRecordError(record_id)
    return client


def caller(request: Request, bearer: Bearer, _claimed_name: ClaimedName = None) -> Caller:
    """Return who calls an address. Refuses a misspelt parameter, which would be ignored."""
    check_parameters(request)
    return who_calls(request.app.state, request, bearer.credentials if bearer else None)


def check_parameters(request: Request) -> None:
    """Refuse a query that has a parameter which the address does not know."""
    if not request.query_params:
        return
    address = getattr(request.scope.get("route"), "path_format", "")
    operation = request.app.openapi()["paths"].get(address, {}).get(request.method.lower(), {})
    described = operation.get("parameters", ())
    known = [each["name"] for each in described if each["in"] == "query"]
    unknown = [name for name in request.query_params if name not in known]
    if operation and unknown:
        names = ", ".join(known) or "none"
        raise CallError(f"there is no parameter {unknown[0]!r} here; there are: {names}")


class Allowed:
    """Gives an address the client of its caller, who must be allowed to do an act there."""

    def __init__(self, act: Act, *, of_all_machines: bool = False) -> None:
        self.act, self.of_all_machines = act, of_all_machines

    def __call__(
        self, request: Request, bearer: Bearer, claimed_name: ClaimedName = None
    ) -> Client:
        """Return the client. With `of_all_machines`, refuses a token that is limited to some."""
        # Called here, because each dependency of its own costs a change of threads.
        by = request.state.caller = caller(request, bearer, claimed_name)
        record_id = request.path_params.get("record_id", "")
        client = acting(request.app.state, by, self.act, record_id)
        if self.of_all_machines and by.machines:
            raise ForbiddenError("this is about all machines, and the token is limited to some")
        return client


CallerHere = Annotated[Caller, Depends(caller)]
Reading = Annotated[Client, Depends(Allowed(Act.READ))]
Submitting = Annotated[Client, Depends(Allowed(Act.SUBMIT))]
Deciding = Annotated[Client, Depends(Allowed(Act.DECIDE))]
Operating = Annotated[Client, Depends(Allowed(Act.OPERATE))]
ReadingAll = Annotated[Client, Depends(Allowed(Act.READ, of_all_machines=True))]
OperatingAll = Annotated[Client, Depends(Allowed(Act.OPERATE, of_all_machines=True))]
Administering = Annotated[Client, Depends(Allowed(Act.ADMINISTER))]


def etag(version: int) -> str:
    """Return the version of a record as an ETag."""
    return f'"{version}"'


def check_version(client: Client, record: Record, if_match: str | None) -> None:
    """Refuse a call about a record that has changed since its caller read it.

    `*` is for any version: an answer to a card is about its proposal as well.
    """
    if if_match is None:
        detail = "send the header If-Match with the ETag of the record that you saw"
        raise RefusedRequestError(NO_VERSION, detail)
    if if_match not in (ANY_VERSION, etag(record.version)):
        detail = f"you saw version {if_match}, and it is at {etag(record.version)} now"
        current = record_body(client, record).model_dump(mode="json")
        raise RefusedRequestError(STALE, detail, current=current)
