"""The addresses of the events of all records: one stream of them, and the position in it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query, Request
from fastapi.concurrency import run_in_threadpool
from sse_starlette import ServerSentEvent

from interlock.kernel.errors import MissedError
from interlock.kernel.exported_event import LifecycleEvent
from interlock.kernel.store.feed import text_of
from interlock.workers.api.access import Reading
from interlock.workers.api.event_stream import EventStream
from interlock.workers.api.followers import Followers, Found
from interlock.workers.api.models import PositionBody
from interlock.workers.engine.event_feed import EventFeed, WantedEvents, enveloped
from interlock.workers.text import visible_json

router = APIRouter(prefix="/v1", tags=["events"])
Message = tuple[str, LifecycleEvent | None]  # a position, and the event before it


@router.get("/events", response_class=EventStream, status_code=200)
async def follow(
    request: Request,
    client: Reading,
    machine: Annotated[
        list[str] | None, Query(description="Of records of these machines; may be repeated.")
    ] = None,
    after: Annotated[
        str, Query(description="The position after which the stream begins; else now.")
    ] = "",
    envelope: Literal["plain", "cloudevents"] = "plain",
    last_event_id: Annotated[
        str, Header(alias="Last-Event-ID", description="As `after`, which it precedes.")
    ] = "",
) -> EventStream:
    """Follow the events of all records that the caller may see, from now or after a position.

    They are server-sent events, whose ids are positions. A listener that comes again with the last
    id that it got misses no event and gets none twice.
    """
    followers: Followers = request.app.state.followers
    feed: EventFeed = request.app.state.event_feed
    position = last_event_id or after
    begin = await run_in_threadpool(feed.begin, position, machine or (), client.machines)
    listener = followers.listener(request.app.state.read_events, begin, request.state.caller)
    namespace = client.settings.namespace

    async def server_sent() -> AsyncIterator[ServerSentEvent]:
        yield ServerSentEvent(id=begin.position)
        async for message in followers.messages(listener):
            yield _sent(message, namespace if envelope == "cloudevents" else None)

    return EventStream(server_sent(), request.state.caller)


@router.get("/events:position")
def position(request: Request, _: Reading) -> PositionBody:
    """Return the position after all events until now, after which a stream can begin later."""
    feed: EventFeed = request.app.state.event_feed
    return PositionBody(position=text_of(feed.feed.newest()))


def read_events(feed: EventFeed, asked: Collection[WantedEvents]) -> dict[Any, Found | None]:
    """Read what follows the positions of several listeners."""
    found: dict[Any, Found | None] = {}
    for wanted, following in feed.after(asked).items():
        if isinstance(following, MissedError):
            # A listener that comes again is answered with 410.
            found[wanted] = None
            continue
        messages: list[Message] = [(one.position, one.event) for one in following.events]
        position = following.position
        if position != wanted.position and (not messages or messages[-1][0] != position):
            messages.append((position, None))
        place = wanted._replace(position=position)
        found[wanted] = Found(messages, place, following.more)
    return found


def _sent(message: Message, namespace: str | None) -> ServerSentEvent:
    """Return what is sent. Without data it is no event to its reader, but a position to keep."""
    position, event = message
    if event is None:
        return ServerSentEvent(id=position)
    data = asdict(event) if namespace is None else enveloped(event, namespace)
    return ServerSentEvent(visible_json(data), event="event", id=position)
