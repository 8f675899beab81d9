"""Finds out who looks at a page: the cookie of a browser has the secret of a session.

A session ends with the token that its person has shown. A script cannot read the cookie, no page of
another site brings it, and nothing but the console takes it: the API wants a token.
"""

from __future__ import annotations

import os
from contextlib import suppress
from functools import partial
from typing import Annotated, Literal
from urllib.parse import urlsplit

from fastapi import Depends, Request, Response

from interlock.kernel.errors import InvalidPayloadError
from interlock.workers.access.roles import Act, Caller
from interlock.workers.access.tokens import check_name
from interlock.workers.api.access import OWN_SITE, acting, admitted
from interlock.workers.api.problems import OTHER_SITE, RefusedRequestError
from interlock.workers.client import Client
from interlock.workers.console.live import is_renewal
from interlock.workers.engine.submission import check_actor
from interlock.workers.processes.port_user import user_name

COOKIE = "interlock_session"
NAMELESS = "person"  # the name in the log of a viewer of whom no other name is known
# What browsers say of a request that no other site has caused.


def viewer(request: Request) -> Caller:
    """Return who looks. Raises RefusedRequestError or TokenRefusedError if nobody has signed in."""
    if request.method == "POST":
        check_same_site(request)
    state, secret = request.app.state, request.cookies.get(cookie_of(request))
    find = state.known_sessions.caller if is_renewal(request) else state.keyring.by_session
    shown = partial(find, secret) if secret else None
    return admitted(state, request, shown, nameless=state.nameless)


def unproved_name(client: Client) -> str:
    """Return the name in the log of viewers whose name no token proves.

    Where only the user of `interlock up` signs in, it is that user's name on this computer, unless
    the log cannot have it or has it for a part of Interlock.
    """
    if client.settings.auth == "owner":
        name = user_name(os.getuid())
        with suppress(InvalidPayloadError):
            check_name(name, "the name of the user")
            check_actor(name, client.dispatch.machines)
            return name
    return NAMELESS


def cookie_of(request: Request) -> str:
    """Return the name of the cookie, which has the port of the console.

    Browsers give a cookie to all ports of a computer, where several consoles may run.
    """
    port = urlsplit(address_of(request)).port
    return f"{COOKIE}_{port}" if port else COOKIE


def check_same_site(request: Request) -> None:
    """Refuse a form that a page of another site has sent: the browser adds the cookie to it too."""
    site, origin = request.headers.get("Sec-Fetch-Site"), request.headers.get("Origin", "")
    is_own = site in OWN_SITE if site else urlsplit(origin).netloc == request.headers.get("Host")
    if not is_own:
        detail = "send this form from a page of this console"
        raise RefusedRequestError(OTHER_SITE, detail)


def address_of(request: Request) -> str:
    """Return the address of the console, as browsers reach it."""
    client: Client = request.app.state.client
    return client.settings.public_url or str(request.base_url).rstrip("/")


def keep_in_browser(
    response: Response,
    request: Request,
    name: str,
    text: str,
    *,
    lifetime_s: int,
    path: str = "/",
    brought_from: Literal["strict", "lax"] = "strict",
) -> None:
    """Give a browser a cookie that no script reads, and that no page of another site brings.

    One that is `brought_from` it as `lax` comes with a link of another site, but with no form.
    """
    response.set_cookie(
        name,
        text,
        max_age=lifetime_s,
        path=path,
        httponly=True,
        samesite=brought_from,
        secure=address_of(request).startswith("https:"),
    )


class AllowedOnPage:
    """Gives a page the client of its viewer, who must be allowed to do an act there."""

    def __init__(self, act: Act) -> None:
        self.act = act

    def __call__(self, request: Request) -> Client:
        """Return the client."""
        # Called here, because each dependency of its own costs a change of threads.
        by = request.state.caller = viewer(request)
        return acting(request.app.state, by, self.act, request.path_params.get("record_id", ""))


Reading = Annotated[Client, Depends(AllowedOnPage(Act.READ))]
Submitting = Annotated[Client, Depends(AllowedOnPage(Act.SUBMIT))]
Deciding = Annotated[Client, Depends(AllowedOnPage(Act.DECIDE))]
Operating = Annotated[Client, Depends(AllowedOnPage(Act.OPERATE))]
Administering = Annotated[Client, Depends(AllowedOnPage(Act.ADMINISTER))]
