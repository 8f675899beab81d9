"""The pages of the systems: what each of them has to show beside its records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse

from interlock.workers.client import Client
from interlock.workers.console.live import looked_up, looked_up_slowly
from interlock.workers.console.render import PageRoute, address_of_link, page
from interlock.workers.console.sessions import Reading
from interlock.workers.console.system_pages import (
    NEEDED,
    NoPageError,
    offered,
    page_of,
    pages_of,
)
from interlock.workers.supervision.page import with_live_parts
from interlock.workers.terminal.page import Link, Section

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/systems")
def index(request: Request, client: Reading) -> Response:
    """List the systems that have a page, with how many records they have in each state."""
    pages = pages_of(client)
    counts = client.counts().machines
    return page(request, "systems.html", pages=pages, counts=counts)


@router.get("/systems/{name}")
def show(request: Request, name: str, client: Reading) -> Response:
    """Show the page of a system, in the view that the query asks for."""
    return _page_of_system(request, client, name)


@router.post("/systems/{name}/{act}")
async def do(request: Request, name: str, act: str, client: Reading) -> Response:
    """Do one of the acts of a page, and go where it leads."""
    form = await request.form()
    fields = {each: value for each, value in form.items() if isinstance(value, str)}
    return await run_in_threadpool(_do, request, client, name, act, fields)


def _do(request: Request, client: Client, name: str, act: str, fields: dict[str, str]) -> Response:
    found = page_of(client, name).acts.get(act)
    if found is None:
        raise NoPageError(f"the page of {name} has no button {act!r}")
    request.state.caller.check(NEEDED[found.needs])
    return RedirectResponse(address_of_link(found.run(client, fields), name), 303)


def _page_of_system(request: Request, client: Client, name: str) -> Response:
    found, query = page_of(client, name), dict(request.query_params)

    def sections_read() -> Iterator[Section]:
        for one in found.view(client, query):
            if one.read is None:
                yield one
            elif parts := looked_up_slowly(request, client, one.read, what=one.title):
                yield replace(one, parts=parts)

    def read() -> tuple[int, list[Section]]:
        return client.now_ms(), with_live_parts(client, sections_read())

    now_ms, sections = looked_up(request, client, read)
    return page(
        request,
        "system.html",
        system=name,
        shown=found,
        query=query,
        address=address_of_link(Link(query), name),
        live=[each for each in sections if each.is_live],
        still=[each for each in sections if not each.is_live],
        offered=offered(found, request.state.caller.acts),
        now_ms=now_ms,
    )
