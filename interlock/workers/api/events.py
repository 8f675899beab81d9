"""The addresses of the events of all records: a stream of them, its position, and past events."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Iterator
from dataclasses import asdict
from itertools import islice
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse
from sse_starlette import ServerSentEvent
from starlette.types import Receive, Scope, Send

from interlock.kernel.errors import MissedError, StoreError
from interlock.kernel.exported_event import LifecycleEvent
from interlock.kernel.store.feed import text_of
from interlock.workers.access.roles import Caller
from interlock.workers.api.access import Reading
from interlock.workers.api.event_stream import PING_S, EventStream, cut_off
from interlock.workers.api.followers import Followers, Found
from interlock.workers.api.models import PositionBody
from interlock.workers.api.problems import PROBLEMS, TOO_MANY_LISTENERS, RefusedRequestError
from interlock.workers.engine.event_feed import EventFeed, WantedEvents, enveloped
from interlock.workers.ops.event_export import EventExport, line_of
from interlock.workers.remote.operator_calls import LINES_OF_JSON
from interlock.workers.text import visible_json

log = logging.getLogger(__name__)
router = APIRouter(prefix="/v1", tags=["events"], responses=PROBLEMS)
EXPORTS_MAX = 8  # at once in one process
EXPORTS_OF_ONE_MAX = 2
LINES_AT_ONCE = 500
TEXT_MAX = 1_000  # escaped, they fit into the 16 KiB that a request may have before its body
SCOPE = "Ids of records, with commas between: only of these, each with all below it."
Message = tuple[str, LifecycleEvent | None]  # a position, and the event before it


@router.get("/events", operation_id="followEvents", response_class=EventStream, status_code=200)
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


@router.get(
    "/events:export",
    operation_id="exportEvents",
    response_class=StreamingResponse,
    responses={200: {"content": {LINES_OF_JSON: {"schema": {"type": "string"}}}}},
)
async def export(
    request: Request,
    client: Reading,
    scope: Annotated[str, Query(max_length=TEXT_MAX, description=SCOPE)] = "",
    since_ms: Annotated[int, Query(ge=0, le=2**53)] = 0,
) -> StreamingResponse:
    """Export the events of all records that the caller may see, until now, each as a line of JSON.

    Those of a record come in the order of their versions. An empty line is no event.
    """
    scopes = scope.split(",") if scope else ()
    found = EventExport(client.dispatch, scopes, since_ms=since_ms, machines=client.machines)
    return ExportStream(found, request.state.caller, request.app.state.exports, request.scope)


class RunningExports:
    """The exports that run in this process: each reads the whole store, so there are few."""

    def __init__(self) -> None:
        self.callers: list[str] = []

    def begin(self, caller: str) -> None:
        """Count one more export of a caller. Raises RefusedRequestError if there is no room."""
        if len(self.callers) >= EXPORTS_MAX:
            detail = f"this process runs {EXPORTS_MAX} exports of events already"
            raise RefusedRequestError(TOO_MANY_LISTENERS, detail)
        if self.callers.count(caller) >= EXPORTS_OF_ONE_MAX:
            detail = f"{caller} runs {EXPORTS_OF_ONE_MAX} exports of events already"
            raise RefusedRequestError(TOO_MANY_LISTENERS, detail)
        self.callers.append(caller)


class ExportStream(StreamingResponse):
    """The answer to an export. It is refused, before it is begun, if there is no room for it.

    Its place is free again when nothing reads the store for it any more, which ends soon after the
    caller has left.
    """

    def __init__(
        self, export: EventExport, by: Caller, running: RunningExports, scope: Scope
    ) -> None:
        super().__init__(self._lines(scope), media_type=LINES_OF_JSON)
        self._export, self._by, self._running = export, by.name, running
        self._reading: asyncio.Future[bytes] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the lines until they end, or the caller leaves. Raises RefusedRequestError."""
        self._running.begin(self._by)
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._export.stop()
            if self._reading is None or self._reading.done():
                self._running.callers.remove(self._by)
            else:
                self._reading.add_done_callback(self._has_stopped)

    async def _lines(self, scope: Scope) -> AsyncIterator[bytes]:
        """Yield the lines of events, many at a time, and an empty one while none is found."""
        events = self._export.all()
        try:
            while True:
                self._reading = asyncio.ensure_future(run_in_threadpool(_next_lines, events))
                while not (await asyncio.wait([self._reading], timeout=PING_S))[0]:
                    yield b"\n"
                if not (lines := await self._reading):
                    return
                yield lines
        except StoreError as refusal:
            log.warning("an export of events for %s is cut short: %s", self._by, refusal)
            # Its status is sent: only that the connection breaks off says that events are missing.
            if not await cut_off(scope):
                raise

    def _has_stopped(self, reading: asyncio.Future[bytes]) -> None:
        self._running.callers.remove(self._by)
        if not reading.cancelled():
            reading.exception()  # the client that would get it is gone


def _next_lines(events: Iterator[LifecycleEvent]) -> bytes:
    return b"".join(map(line_of, islice(events, LINES_AT_ONCE)))


@router.get("/events:position", operation_id="readPosition")
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
