"""Renders the pages of the console, and the answers to requests that are refused.

Every text on a page is escaped, and its hidden characters are shown: agents write some of them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fastapi import HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.routing import APIRoute
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from interlock.kernel.errors import KernelError, StoreError, TokenRefusedError
from interlock.workers.access.roles import Act, Caller
from interlock.workers.api.problems import RefusedRequestError
from interlock.workers.ops.screen import counter_text, is_said
from interlock.workers.remote.problems import NO_TOKEN, kind_of
from interlock.workers.terminal.screen import age
from interlock.workers.text import visible, visible_json

log = logging.getLogger(__name__)

FOLDER = Path(__file__).parent
SIGN_IN = "/login"
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
Handler = Callable[[Request], Coroutine[Any, Any, Response]]


def moment(at_ms: int) -> str:
    """Return a time as people read it, with its date."""
    return datetime.fromtimestamp(at_ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def ago(at_ms: int, now_ms: int) -> Markup:
    """Return how long ago a time was; a pointer over it shows the time itself."""
    machine = datetime.fromtimestamp(at_ms / 1_000, UTC).isoformat(timespec="seconds")
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        machine, moment(at_ms), age(now_ms - at_ms)
    )


def path_of(record_id: str) -> str:
    """Return an id as a part of an address: its slashes stay."""
    return quote(record_id, safe="/")


def words(name: str) -> str:
    """Return a name such as `awaiting_review` as words, with spaces between them."""
    return name.replace("_", " ")


def _shown(value: Any) -> Any:
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


PAGES = Environment(
    loader=FileSystemLoader(FOLDER / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    finalize=_shown,
    trim_blocks=True,
    lstrip_blocks=True,
)
PAGES.filters |= {
    "path": path_of,
    "words": words,
    "age": age,
    "amount": lambda amount, name: counter_text(name, amount),
    "json": lambda value: visible_json(value, indent=2),
    "value": visible_json,
}
PAGES.globals |= {"ago": ago, "moment": moment, "is_said": is_said, "Act": Act}


def page(request: Request, name: str, status: int = 200, **values: Any) -> HTMLResponse:
    """Return a page. `viewer` is who looks at it, None for who has not signed in."""
    viewer: Caller | None = getattr(request.state, "viewer", None)
    html = PAGES.get_template(name).render(
        viewer=viewer,
        acts=viewer.acts if viewer else frozenset(),
        here=request.url.path,
        **values,
    )
    return HTMLResponse(html, status, HEADERS)


class PageRoute(APIRoute):
    """An address of the console: what it refuses is said on a page, not as problem+json."""

    def get_route_handler(self) -> Handler:
        """Return what answers a request."""
        answer = super().get_route_handler()

        async def shown(request: Request) -> Response:
            try:
                return await answer(request)
            except HTTPException:
                raise
            except Exception as refusal:  # noqa: BLE001 - `_refused` logs what nobody expects
                return _refused(request, refusal)

        return shown


def _refused(request: Request, refusal: Exception) -> Response:
    """Return the page that says why a request was refused, or where its sender may sign in."""
    title, sentence, status = "This page failed", "The log of this server has the error.", 500
    match refusal:
        case TokenRefusedError():
            return _sign_in(request)
        case RefusedRequestError(kind=kind):
            if kind is NO_TOKEN:
                return _sign_in(request)
            title, sentence, status = kind.title, f"{refusal}.", kind.status
        case StoreError():
            log.warning("a page could not be shown: %s", refusal)
            sentence = "Interlock cannot reach its store. Nothing is lost; try again soon."
            title, status = "Not now", kind_of(refusal).status
        case KernelError():
            kind = kind_of(refusal)
            title, sentence, status = kind.title, f"{refusal}.", kind.status
        case RequestValidationError():
            found = "; ".join(f"{each['loc'][-1]}: {each['msg']}" for each in refusal.errors())
            title, sentence, status = "This request is wrong", f"{found}.", 422
        case _:
            log.error("a page could not be shown", exc_info=refusal)
    return page(request, "refused.html", status, title=title, sentence=sentence)


def _sign_in(request: Request) -> RedirectResponse:
    asked = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    wanted = asked if request.method == "GET" else "/"
    return RedirectResponse(f"{SIGN_IN}?then={quote(wanted)}", 303, HEADERS)
