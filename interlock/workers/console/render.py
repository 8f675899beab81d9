"""Renders the pages of the console, and the answers to requests that are refused.

Every text on a page is escaped, and its hidden characters are shown: agents write some of them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote, urlencode

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.routing import APIRoute
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.exceptions import HTTPException

from interlock.kernel.amounts import share_text
from interlock.kernel.errors import ForbiddenError, KernelError, StoreError, TokenRefusedError
from interlock.kernel.payload import problem_of
from interlock.workers.access.roles import Act, Caller
from interlock.workers.api.problems import RefusedRequestError
from interlock.workers.console.coloured_code import counts, diff_rows
from interlock.workers.console.flow import FlowWatch
from interlock.workers.console.live import is_renewal
from interlock.workers.console.plain_words import (
    exact_value,
    name_words,
    value_words,
    weekday_words,
)
from interlock.workers.console.timeline import codes_of, position_of
from interlock.workers.ops.page import counter_text
from interlock.workers.remote.problems import NO_TOKEN, kind_of
from interlock.workers.terminal.page import Link, StateName
from interlock.workers.text import age, duration, is_said, moment, visible, visible_json

log = logging.getLogger(__name__)

FOLDER = Path(__file__).parent
SIGN_IN = "/login"
OPEN_TO_ALL = "INTERLOCK_AUTH=none"
THEME = "interlock_theme"  # the cookie that has whether a person chose light or dark
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
OTHER_WAY = "use the command line, such as `interlock token list`, or set INTERLOCK_AUTH=tokens."
Handler = Callable[[Request], Coroutine[Any, Any, Response]]


def ago(at_ms: int, now_ms: int) -> Markup:
    """Return how long ago a time was; a pointer over it shows the time itself."""
    return _time(at_ms, now_ms - at_ms)


def at_time(at_ms: int, now_ms: int) -> Markup:
    """Return the time of day of a moment of today, and of another one the date too, in UTC."""
    at = moment(at_ms)
    text = at[11:16] if at[:10] == moment(now_ms)[:10] else at[5:16]
    return Markup(f'<time datetime="{at[:10]}T{at[11:19]}Z" title="{at}">{text}</time>')  # noqa: S704


def clock_time(at_ms: int) -> Markup:
    """Return the time of day of a moment, in UTC; a pointer over it shows the date."""
    at = moment(at_ms)
    return Markup(f'<time datetime="{at[:10]}T{at[11:19]}Z" title="{at}">{at[11:19]}</time>')  # noqa: S704


def time_left(at_ms: int, now_ms: int) -> Markup:
    """Return how long it is until a time; a pointer over it shows the time itself."""
    return _time(at_ms, max(at_ms - now_ms, 0))


def _time(at_ms: int, length_ms: int) -> Markup:
    at, text = moment(at_ms), age(length_ms)
    iso = f"{at[:10]}T{at[11:19]}Z"
    # Nothing of this has to be escaped, and a page has one for each of its rows.
    return Markup(f'<time datetime="{iso}" title="{at}">{text}</time>')  # noqa: S704


def path_of(record_id: str) -> str:
    """Return an id as a part of an address: its slashes stay."""
    return quote(record_id, safe="/")


def address_of_link(link: Link, system: str) -> str:
    """Return where a link on the page of a system leads."""
    if isinstance(link.to, str):
        return f"/records/{path_of(link.to)}"
    query = f"?{urlencode(link.to)}" if link.to else ""
    return f"/systems/{quote(system)}{query}"


def points(values: Sequence[int | None]) -> str:
    """Return values as the points of a line in a box of 120 by 24; without a value it is low."""
    most, step = max(max((value or 0 for value in values), default=0), 1), 120 / (len(values) - 1)
    return " ".join(
        f"{at * step:.0f},{23 - 22 * (value or 0) / most:.1f}" for at, value in enumerate(values)
    )


def _shown(value: Any) -> Any:
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def with_tabs(text: str) -> Markup:
    """Return a visible text whose tabs are kept: in a field it is sent as it is shown."""
    return escape("\t".join(map(visible, text.split("\t"))))


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
    "words": name_words,
    "age": age,
    "duration": duration,
    "amount": lambda amount, name: counter_text(name, amount),
    "share": lambda part, whole, name: share_text(name, part, whole),
    "codes": codes_of,
    "position": position_of,
    "points": points,
    "with_tabs": with_tabs,
    "json": lambda value: visible_json(value, indent=2),
    "value": visible_json,
    "exact": exact_value,
    "said": value_words,
    "weekday": weekday_words,
    "address": address_of_link,
    "diff_rows": diff_rows,
    "counts": counts,
    # Drawings are made by code of a system, which escapes the texts in them.
    "drawn": Markup,
}
PAGES.globals |= {
    "ago": ago,
    "time_left": time_left,
    "moment": moment,
    "clock": clock_time,
    "at_time": at_time,
    "is_said": is_said,
    "state_name": StateName,
    "Act": Act,
}


def page(request: Request, name: str, status: int = 200, **values: Any) -> HTMLResponse:
    """Return a page. `viewer` is who looks at it, None for who has not signed in."""
    viewer: Caller | None = getattr(request.state, "caller", None)
    html = PAGES.get_template(name).render(
        viewer=viewer,
        acts=viewer.acts if viewer else frozenset(),
        here=request.url.path,
        theme=theme if (theme := request.cookies.get(THEME)) in ("light", "dark") else "",
        asked=cache(lambda: _asked(request, viewer)),
        **values,
    )
    return HTMLResponse(html, status, HEADERS)


def _asked(request: Request, viewer: Caller | None) -> int:
    """Return how many records wait for a person; 0 for a viewer who may not see all of them.

    A page that a person opens has the number after the answer that this person just gave.
    """
    if viewer is None or viewer.machines:
        return 0
    with suppress(StoreError):
        watch: FlowWatch = request.app.state.flow
        return watch.waiting(anew=not is_renewal(request))
    return 0


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
            if isinstance(refusal, ForbiddenError) and not request.state.caller.token_id:
                sentence += f" Nobody signs in here ({OPEN_TO_ALL}): {OTHER_WAY}"
            if status == HTTPStatus.INTERNAL_SERVER_ERROR:
                log.error("a page could not be shown", exc_info=refusal)
        case RequestValidationError():
            found = "; ".join(problem_of(each, str(each["loc"][-1])) for each in refusal.errors())
            title, sentence, status = "This request is wrong", f"{found}.", 422
        case _:
            log.error("a page could not be shown", exc_info=refusal)
    return page(request, "refused.html", status, title=title, sentence=sentence)


def answer_wrong_addresses(app: FastAPI) -> None:
    """Let a browser that opens what is no page see a page that says so, instead of JSON."""
    as_problem = app.exception_handlers[HTTPException]

    @app.exception_handler(HTTPException)
    def shown(request: Request, refusal: HTTPException) -> Response:
        path, is_page = request.url.path, "text/html" in request.headers.get("Accept", "")
        if not is_page or request.method != "GET" or path.startswith("/v1"):
            return cast("Response", as_problem(request, refusal))
        said = f"There is no page at {path}."
        if refusal.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            said = f"{path} is no page: it takes what a form of the console sends."
        title = "There is no such page"
        return page(request, "refused.html", refusal.status_code, title=title, sentence=said)


def _sign_in(request: Request) -> RedirectResponse:
    asked = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    wanted = asked if request.method == "GET" else "/"
    return RedirectResponse(f"{SIGN_IN}?then={quote(wanted)}", 303, HEADERS)
