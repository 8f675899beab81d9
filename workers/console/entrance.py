"""The entrance: people sign in with an access token or by a provider, and sign out again."""

from __future__ import annotations

from secrets import compare_digest
from typing import Annotated

from fastapi import APIRouter, Form, Query, Request, Response
from fastapi.responses import RedirectResponse

from interlock.kernel.errors import TokenRefusedError
from interlock.workers.access.tokens import kept_of
from interlock.workers.api.access import count_by_address, who_calls
from interlock.workers.client import Client
from interlock.workers.console.oidc import MADE_BY, Attempt, NotSignedInError, Provider
from interlock.workers.console.render import PageRoute, page
from interlock.workers.console.sessions import COOKIE, address_of, check_same_site, keep_in_browser

router = APIRouter(route_class=PageRoute, include_in_schema=False)

SESSION_S = 86_400
ATTEMPT, ATTEMPT_S = "interlock_attempt", 600
BACK = "/login/provider/back"
Then = Annotated[str, Query(max_length=2_000)]


@router.get("/login")
def entrance(request: Request, then: Then = "/") -> Response:
    """Show the page on which people sign in."""
    return _entrance(request, then)


@router.post("/login")
def sign_in(
    request: Request, token: Annotated[str, Form()] = "", then: Annotated[str, Form()] = "/"
) -> Response:
    """Sign in with an access token, and go on to the page that was asked for."""
    check_same_site(request)
    try:
        caller = who_calls(request.app.state, request, token.strip())
    except TokenRefusedError as refusal:
        return _entrance(request, then, f"{refusal}.", status=401)
    if not caller.proved:
        # Nobody is asked for a token here, so what was written may be any text.
        return RedirectResponse(own_path(then), 303)
    return _signed_in(request, token.strip(), then)


@router.get("/login/provider")
def begin(request: Request, then: Then = "/") -> Response:
    """Send the browser to the provider."""
    address, attempt = _provider(request).begin(_back(request), own_path(then))
    answer = RedirectResponse(address, 303)
    keep_in_browser(answer, request, ATTEMPT, attempt.as_text(), lifetime_s=ATTEMPT_S, path=BACK)
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
    answer = _signed_in(request, token, attempt.then)
    answer.delete_cookie(ATTEMPT, path=BACK)
    return answer


@router.post("/logout")
def sign_out(request: Request) -> Response:
    """Sign a person out.

    A token that signing in by a provider has made is revoked. Others stay valid, and only this
    browser forgets them.
    """
    check_same_site(request)
    client: Client = request.app.state.client
    tokens = client.dispatch.access_tokens
    kept = kept_of(tokens, request.cookies.get(COOKIE, ""))
    if kept.made_by == MADE_BY:
        tokens.revoke(kept.id, kept.holder)
    answer = RedirectResponse("/login", 303)
    answer.delete_cookie(COOKIE)
    return answer


def own_path(then: str) -> str:
    """Return a path of this console, and `/` for the address of any other site."""
    # Browsers read a backslash as a slash, and leave out tabs and line breaks.
    is_own = then.startswith("/") and not then.startswith("//") and "\\" not in then
    return then if is_own and then.isprintable() else "/"


def _entrance(request: Request, then: str, problem: str = "", *, status: int = 200) -> Response:
    has_provider = request.app.state.provider is not None
    return page(
        request,
        "login.html",
        status,
        then=own_path(then),
        problem=problem,
        has_provider=has_provider,
    )


def _signed_in(request: Request, token: str, then: str) -> Response:
    answer = RedirectResponse(own_path(then), 303)
    keep_in_browser(answer, request, COOKIE, token, lifetime_s=SESSION_S)
    return answer


def _provider(request: Request) -> Provider:
    provider: Provider | None = request.app.state.provider
    if provider is None:
        raise NotSignedInError("no provider is set up here (INTERLOCK_OIDC_ISSUER)")
    return provider


def _back(request: Request) -> str:
    """Return the address to which the provider sends browsers back."""
    return f"{address_of(request)}{BACK}"
