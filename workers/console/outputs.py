"""Renews the output of an agent on the pages that show it, as soon as the agent prints more."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from sse_starlette import ServerSentEvent

from interlock.workers.api.event_stream import EventStream
from interlock.workers.api.followers import Followers
from interlock.workers.api.outputs import STAMP_LENGTH_MAX, listen
from interlock.workers.console.live import looked_up
from interlock.workers.console.render import PageRoute, page
from interlock.workers.console.sessions import Reading
from interlock.workers.supervision.agent_output import agent_output
from interlock.workers.systems import output_source
from interlock.workers.terminal.page import LiveOutput

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/follow-output/{record_id:path}")
async def follow(
    request: Request,
    record_id: str,
    client: Reading,
    after: Annotated[str, Query(max_length=STAMP_LENGTH_MAX)] = "",
) -> EventStream:
    """Send an event whenever a page has to show something else of an output: only its stamp."""
    followers: Followers = request.app.state.followers
    listener = await run_in_threadpool(listen, request, client, record_id, after)

    async def server_sent() -> AsyncIterator[ServerSentEvent]:
        async for found in followers.messages(listener):
            yield ServerSentEvent(found.stamp, event="changed")

    return EventStream(server_sent(), request.state.caller)


@router.get("/output/{record_id:path}")
def output(request: Request, record_id: str, client: Reading) -> Response:
    """Show the newest output of a record's agent, as a part of a page."""

    def read() -> tuple[int, LiveOutput]:
        source = output_source(client, client.show(record_id))
        return client.now_ms(), agent_output(client.dispatch, record_id, source)

    now_ms, shown = looked_up(request, client, read)
    return page(request, "output.html", output=shown, now_ms=now_ms)
