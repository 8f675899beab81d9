"""The addresses of what the agents of records print: the newest part, and a stream of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Request
from fastapi.concurrency import run_in_threadpool
from sse_starlette import ServerSentEvent

from interlock.workers.api.access import Reading
from interlock.workers.api.event_stream import EventStream
from interlock.workers.api.followers import Followers, Found, Listener
from interlock.workers.api.models import OutputBody, output_body
from interlock.workers.api.problems import PROBLEMS
from interlock.workers.client import Client
from interlock.workers.engine.agent_output import look_at
from interlock.workers.engine.printed_calls import output_source

router = APIRouter(prefix="/v1", tags=["records"], responses=PROBLEMS)

STAMP_LENGTH_MAX = 500
Id = Annotated[str, Path(description="The id of a record, with its slashes as they are.")]


@router.get("/records/{record_id:path}:output", operation_id="readOutput")
def output(
    record_id: Id,
    client: Reading,
    run: Annotated[
        int | None, Query(ge=1, description="The session or claim; by default the last one.")
    ] = None,
    after: Annotated[
        int, Query(ge=0, description="Return of `output` what was printed after so many bytes.")
    ] = 0,
) -> OutputBody:
    """Return the newest output of a record's agent, and ask its computer for what is newer.

    In the first answer `state` is usually `asked`. The computer answers within about a second.
    """
    source = output_source(client, client.show(record_id), run)
    return output_body(record_id, look_at(client.dispatch, {record_id: source})[record_id], after)


@router.get(
    "/records/{record_id:path}:output-events",
    operation_id="followOutput",
    response_class=EventStream,
    status_code=200,
)
async def follow(
    request: Request,
    record_id: Id,
    client: Reading,
    last_event_id: Annotated[str, Header(alias="Last-Event-ID", max_length=STAMP_LENGTH_MAX)] = "",
) -> EventStream:
    """Follow the output of a record's agent: server-sent events, each with the newest part.

    The first comes at once, and each further one within about a second of what is printed. A
    listener that comes again with the last id that it got is sent nothing before there is more.
    """
    followers: Followers = request.app.state.followers
    listener = await run_in_threadpool(listen, request, client, record_id, last_event_id)

    async def server_sent() -> AsyncIterator[ServerSentEvent]:
        async for found in followers.messages(listener):
            body = output_body(record_id, found).model_dump_json()
            yield ServerSentEvent(body, event="output", id=found.stamp)

    return EventStream(server_sent(), request.state.caller)


def listen(request: Request, client: Client, record_id: str, seen: str) -> Listener:
    """Return a listener for the output of a record's agent, who has `seen` what has this stamp.

    Raises KernelError if there is no such record, or if it never has such an output.
    """
    output_source(client, client.show(record_id))
    followers: Followers = request.app.state.followers
    place = (record_id, seen)
    return followers.listener(request.app.state.read_outputs, place, request.state.caller)


def read_outputs(client: Client, places: Collection[tuple[str, str]]) -> dict[Any, Found | None]:
    """Look at the outputs of records for their listeners: each has seen what has a stamp."""
    ids = dict.fromkeys(record_id for record_id, _ in places)
    # One damaged record must not end the following of the others.
    records = client.dispatch.views.records(ids, readable_by=client.machines)
    sources = {str(each): output_source(client, record) for each, record in records.items()}
    outputs = look_at(client.dispatch, sources)
    found: dict[Any, Found | None] = {}
    for record_id, seen in places:
        if record_id not in outputs:
            found[record_id, seen] = None  # it was pruned, or is damaged
            continue
        now = outputs[record_id]
        messages = [now] if now.stamp != seen else []
        found[record_id, seen] = Found(messages, (record_id, now.stamp), more=False)
    return found
