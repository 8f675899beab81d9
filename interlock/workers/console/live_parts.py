"""Renews what other computers publish of a record, on the pages that show it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from sse_starlette import ServerSentEvent

from interlock.workers.api import diffs, outputs
from interlock.workers.api.diffs import Between
from interlock.workers.api.event_stream import EventStream
from interlock.workers.api.followers import Followers, Listener
from interlock.workers.api.outputs import STAMP_LENGTH_MAX
from interlock.workers.client import Client
from interlock.workers.console.live import looked_up
from interlock.workers.console.render import PageRoute, page
from interlock.workers.console.sessions import Reading
from interlock.workers.supervision.page import looked_at
from interlock.workers.terminal.page import LivePart

router = APIRouter(route_class=PageRoute, include_in_schema=False)

After = Annotated[str, Query(max_length=STAMP_LENGTH_MAX)]


@router.get("/follow-output/{record_id:path}")
async def follow_output(
    request: Request, record_id: str, client: Reading, after: After = ""
) -> EventStream:
    """Send an event whenever a page has to show something else of an output: only its stamp."""
    listener = await run_in_threadpool(outputs.listen, request, client, record_id, after)
    return _stamps(request, listener)


@router.get("/follow-diff/{record_id:path}")
async def follow_diff(
    request: Request, record_id: str, client: Reading, between: Between = "", after: After = ""
) -> EventStream:
    """Send an event when a page has to show something else of a difference: only its stamp."""
    listener = await run_in_threadpool(diffs.listen, request, client, record_id, between, after)
    return _stamps(request, listener)


@router.get("/output/{record_id:path}")
def output(request: Request, record_id: str, client: Reading) -> Response:
    """Show the newest output of a record's agent, as a part of a page."""

    def read() -> LivePart:
        return looked_at(client, LivePart("output", client.show(record_id)))

    return _part(request, client, read)


@router.get("/diff/{record_id:path}")
def diff(request: Request, record_id: str, client: Reading, between: Between = "") -> Response:
    """Show the difference of a record, as a part of a page."""

    def read() -> LivePart:
        return looked_at(client, LivePart("diff", client.show(record_id), between))

    return _part(request, client, read)


def _part(request: Request, client: Client, read: Callable[[], LivePart]) -> Response:
    now_ms, shown = looked_up(request, client, lambda: (client.now_ms(), read()))
    return page(request, "live_part.html", shown=shown, now_ms=now_ms)


def _stamps(request: Request, listener: Listener) -> EventStream:
    followers: Followers = request.app.state.followers

    async def server_sent() -> AsyncIterator[ServerSentEvent]:
        async for found in followers.messages(listener):
            yield ServerSentEvent(found.stamp, event="changed")

    return EventStream(server_sent(), request.state.caller)
