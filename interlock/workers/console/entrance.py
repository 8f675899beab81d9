"""The entrance: people sign in with an access token or by a provider, and sign out again."""

from __future__ import annotations

from secrets import compare_digest
from typing import Annotated

from fastapi import APIRouter, Form, Query, Request, Response
from fastapi.responses import RedirectResponse

from interlock.kernel.errors import TokenRefusedError
from interlock.workers.access.keyring import Keyring
from interlock.workers.api.access import count_by_address, who_calls
from interlock.workers.api.problems import RefusedRequestError
from interlock.workers.client import Client
from interlock.workers.console.oidc import MADE_BY, Attempt, NotSignedInError, Provider
from interlock.workers.console.render import OPEN_TO_ALL, PageRoute, page
from interlock.workers.console.sessions import (
    address_of,
    check_same_site,
    cookie_of,
    keep_in_browser,
    viewer,
)
from interlock.workers.engine.sessions import LINK_PATH, SESSION_S

router = APIRouter(route_class=PageRoute, include_in_schema=False)

ATTEMPT, ATTEMPT_S = "interlock_attempt", 600
BACK = "/login/provider/back"
Then = Annotated[str, Query(max_length=2_000)]


@router.get("/login")
def entrance(request: Request, then: Then = "/") -> Response:
    """Show the page on which people sign in. Who has signed in goes on to the page asked for.

    A browser that follows a link of another site brings no cookie. So it asks once more by itself,
    and as the page that makes it ask is of this site, it brings the cookie then.
    """
    if _is_signed_in(request):
        return RedirectResponse(own_path(then), 303)
    comes_from_elsewhere = request.headers.get("Sec-Fetch-Site") == "cross-site"
    return _entrance(request, then, asks_again=comes_from_elsewhere)


@router.post("/login")
def sign_in(
    request: Request, token: Annotated[str, Form()] = "", then: Annotated[str, Form()] = "/"
) -> Response:
    """Sign in with a token, and go on to the page that was asked for."""
    check_same_site(request)
    try:
        caller = who_calls(request.app.state, request, token.strip())
    except TokenRefusedError as refusal:
        return _entrance(request, then, f"{refusal}.", status=401)
    if not caller.token_id:
        # Nobody is asked for a token here, so what was written may be any text.
        said = f"Nobody has to sign in here ({OPEN_TO_ALL}), so a token changes nothing: what you"
        return _entrance(request, then, f"{said} do is done by {caller.name}, unproved.")
    return _signed_in(request, _keyring(request).sign_in(token.strip()), then)


@router.get(LINK_PATH)
def sign_in_by_link(request: Request, code: Then = "") -> Response:
    """Sign in the user of `interlock up`, who has opened a link that works once."""
    # By address, so that nobody can try many.
    count_by_address(request.app.state, request)
    try:
        return _signed_in(request, _keyring(request).sign_in_by_link(code), "/")
    except TokenRefusedError:
        if _is_signed_in(request):
            return RedirectResponse("/", 303)
        problem = "This link was used before, or it is too old. `interlock console` prints another."
        return _entrance(request, "/", problem, status=401)


@router.get("/login/provider")
def begin(request: Request, then: Then = "/") -> Response:
    """Send the browser to the provider."""
    address, attempt = _provider(request).begin(_back(request), own_path(then))
    answer = RedirectResponse(address, 303)
    # The provider, another site, sends the browser back to where this one is read.
    kept = attempt.as_text()
    keep_in_browser(
        answer, request, ATTEMPT, kept, lifetime_s=ATTEMPT_S, path=BACK, brought_from="lax"
    )
    return answer


@router.get(BACK)
def finish(
    request: Request,
    state: Then = "",
    code: Then = "",
    error: Then = "",
    error_description: Then = "",
) -> Response:
    """Sign in the person whom the provider has sent back."""
    count_by_address(request.app.state, request)
    attempt = Attempt.of(request.cookies.get(ATTEMPT, ""))
    if attempt is None or not compare_digest(attempt.state.encode(), state.encode()):
        raise NotSignedInError("this is not the browser that began to sign in; begin again")
    if error:
        raise NotSignedInError(f"the provider says {error}: {error_description or 'no reason'}")
    client: Client = request.app.state.client
    token = _provider(request).finish(client, attempt, code, _back(request))
    answer = _signed_in(request, _keyring(request).sign_in(token), attempt.then)
    answer.delete_cookie(ATTEMPT, path=BACK)
    return answer


@router.post("/logout")
def sign_out(request: Request) -> Response:
    """End the session of a person.

    The token that they have shown stays valid; one that signing in by a provider made is revoked.
    """
    check_same_site(request)
    client: Client = request.app.state.client
    name = cookie_of(request)
    token = _keyring(request).sign_out(request.cookies.get(name, ""))
    if token.made_by == MADE_BY:
        client.dispatch.access_tokens.revoke(token.id, token.holder)
    answer = RedirectResponse("/login", 303)
    answer.delete_cookie(name)
    return answer


def own_path(then: str) -> str:
    """Return a path of this console, and `/` for the address of any other site."""
    # Browsers read a backslash as a slash, and leave out tabs and line breaks.
    is_own = then.startswith("/") and not then.startswith("//") and "\\" not in then
    return then if is_own and then.isprintable() else "/"


def _entrance(
    request: Request, then: str, problem: str = "", *, status: int = 200, asks_again: bool = False
) -> Response:
    return page(
        request,
        "login.html",
        status,
        then=own_path(then),
        problem=problem,
        has_provider=request.app.state.provider is not None,
        has_owner=_keyring(request).has_owner,
        asks_again=asks_again,
    )


def _signed_in(request: Request, secret: str, then: str) -> Response:
    answer = RedirectResponse(own_path(then), 303)
    keep_in_browser(answer, request, cookie_of(request), secret, lifetime_s=SESSION_S)
    return answer


def _is_signed_in(request: Request) -> bool:
    try:
        viewer(request)
    except (TokenRefusedError, RefusedRequestError):
        return False
    return True


def _keyring(request: Request) -> Keyring:
    keyring: Keyring = request.app.state.keyring
    return keyring


def _provider(request: Request) -> Provider:
    provider: Provider | None = request.app.state.provider
    if provider is None:
        raise NotSignedInError("no provider is set up here (INTERLOCK_OIDC_ISSUER)")
    return provider


def _back(request: Request) -> str:
    """Return the address to which the provider sends browsers back."""
    return f"{address_of(request)}{BACK}"
