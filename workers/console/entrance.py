"""The entrance: people sign in with an access token, and sign out again."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Query, Request, Response
from fastapi.responses import RedirectResponse

from interlock.kernel.errors import TokenRefusedError
from interlock.workers.api.access import who_calls
from interlock.workers.console.render import Page, page
from interlock.workers.console.sessions import COOKIE, check_same_site, open_session

router = APIRouter(route_class=Page, include_in_schema=False)

SESSION_S = 12 * 3_600
Then = Annotated[str, Query(max_length=2_000)]


@router.get("/login")
def entrance(request: Request, then: Then = "/") -> Response:
    """Ask who comes."""
    return page(request, "login.html", then=own_path(then), problem="")


@router.post("/login")
def sign_in(
    request: Request, token: Annotated[str, Form()] = "", then: Annotated[str, Form()] = "/"
) -> Response:
    """Sign in with an access token, and go on to the page that was asked for."""
    check_same_site(request)
    try:
        who_calls(request.app.state, request, token.strip())
    except TokenRefusedError as refusal:
        return page(request, "login.html", 401, then=own_path(then), problem=f"{refusal}")
    answer = RedirectResponse(own_path(then), 303)
    open_session(answer, request, token.strip(), SESSION_S)
    return answer


@router.post("/logout")
def sign_out(request: Request) -> Response:
    """Sign out: the browser forgets the token. Its holder may revoke it besides."""
    check_same_site(request)
    answer = RedirectResponse("/login", 303)
    answer.delete_cookie(COOKIE)
    return answer


def own_path(then: str) -> str:
    """Return a path of this console, and `/` for the address of any other site."""
    is_own = then.startswith("/") and not then.startswith(("//", "/\\"))
    return then if is_own and "\n" not in then and "\r" not in then else "/"
