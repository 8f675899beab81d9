"""Builds the FastAPI application: its addresses, its error answers, and the limit on bodies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, FastAPI
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from interlock.workers.access.keyring import Keyring
from interlock.workers.api import (
    answer_links,
    cards,
    diffs,
    events,
    outputs,
    records,
    rejected,
    surroundings,
    tokens,
)
from interlock.workers.api.agents import PATH, AgentTools
from interlock.workers.api.followers import Followers
from interlock.workers.api.load import LoadLimit
from interlock.workers.api.models import BODY_BYTES_MAX
from interlock.workers.api.problems import TOO_SLOW, add_problem_answers, answer
from interlock.workers.api.rates import Rates
from interlock.workers.client import Client
from interlock.workers.engine.event_feed import EventFeed
from interlock.workers.engine.kept import Kept
from interlock.workers.engine.sessions import sessions_of
from interlock.workers.ops.metrics import Exposition
from interlock.workers.remote.problems import TOO_LARGE
from interlock.workers.up_file import read_token

BODY_S = 30
# `cards`, `outputs` and `diffs` come before `records`, which takes every other verb of a record.
MODULES_WITH_ROUTES = (
    *(cards, outputs, diffs, records, events),
    *(surroundings, rejected, tokens, answer_links),
)
ABOUT = "Create, watch and decide the records of all machines. docs/api.md explains it."


class Api(FastAPI):
    """The application. Its description says of a token what is so here."""

    def __init__(self, *, asks_nobody: bool, **options: Any) -> None:
        super().__init__(**options)
        self.asks_nobody = asks_nobody

    def openapi(self) -> dict[str, Any]:
        """Return the description for tools, without a token where nobody is asked for one."""
        if self.openapi_schema is None and self.asks_nobody:
            described = super().openapi()
            for methods in described["paths"].values():
                for operation in methods.values():
                    operation.pop("security", None)
            described["components"].pop("securitySchemes", None)
        return super().openapi()


def create_app(client: Client, *beside: Callable[[], AbstractAsyncContextManager[None]]) -> FastAPI:
    """Return the API over a client, whose store and machines it shows.

    What is `beside` it runs as long as the application does.
    """
    followers = Followers(client.dispatch.access_tokens)

    @asynccontextmanager
    async def running(_: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for each in (followers.running, *beside):
                await stack.enter_async_context(each())
            yield

    # No pages of FastAPI's own: they load scripts from elsewhere.
    app = Api(
        asks_nobody=client.settings.auth == "none",
        servers=[{"url": client.settings.public_url or "/"}],
        title="Interlock",
        version=version("interlock"),
        description=ABOUT,
        docs_url=None,
        redoc_url=None,
        lifespan=running,
        # One span for each call, without FastAPI's own steps; a call that is refused is no error.
        telemetry={"operation_spans": False, "exclude": answer_links.is_secret},
    )
    app.state.client, app.state.followers = client, followers
    settings, dispatch = client.settings, client.dispatch
    owner = read_token(settings.home) if settings.auth == "owner" else ""
    app.state.keyring = Keyring(dispatch.access_tokens, sessions_of(dispatch), owner)
    app.state.read_logs = partial(records.read_logs, client.dispatch.views)
    app.state.event_feed = EventFeed(client.dispatch)
    app.state.read_events = partial(events.read_events, app.state.event_feed)
    app.state.read_outputs = partial(outputs.read_outputs, client)
    app.state.read_diffs = partial(diffs.read_diffs, client)
    app.state.exports = events.RunningExports()
    app.state.store_ms = Kept(client.dispatch.views.now_ms)
    app.state.exposition = Exposition(client.dispatch)
    app.state.rates = Rates(client.settings.api_rate)
    answer_links.hide_links()
    for module in MODULES_WITH_ROUTES:
        add_routes(app, module.router)
    app.router.routes.append(Route(PATH, AgentTools(app.state)))
    add_problem_answers(app)
    # The last is the first that sees a call; one whose body still comes is not at work yet.
    app.add_middleware(LoadLimit)
    app.add_middleware(BodyLimit)
    app.add_middleware(Heads)
    return app


def add_routes(app: FastAPI, router: APIRouter) -> None:
    """Add the routes of a router to an application as they are.

    `include_router` analyses the functions of all routes again, once for each application, and the
    first request waits for it.
    """
    app.router.routes += router.routes


class Heads:
    """Answers HEAD as GET, without the body: where GET would stream, its stream ends at once."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self.app(scope, receive, send)
            return
        is_read, has_begun = False, asyncio.Event()

        async def received() -> Message:
            nonlocal is_read
            if is_read:
                await has_begun.wait()
                return {"type": "http.disconnect"}
            message = await receive()
            is_read = not message.get("more_body", False)
            return message

        async def sent(message: Message) -> None:
            await send({**message, "body": b""} if "body" in message else message)
            has_begun.set()

        await self.app({**scope, "method": "GET"}, received, sent)


class BodyLimit:
    """Refuses a body that is longer than BODY_BYTES_MAX, or that takes longer than BODY_S."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, with its whole body."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            async with asyncio.timeout(BODY_S):
                body = await _body(receive)
        except TimeoutError:
            detail = f"it must be sent within {BODY_S} seconds"
            await answer(TOO_SLOW, detail)(scope, receive, send)
            return
        if body is None:
            return
        if len(body) > BODY_BYTES_MAX:
            detail = f"it has more than {BODY_BYTES_MAX} bytes"
            await answer(TOO_LARGE, detail)(scope, receive, send)
            return
        whole: list[Message] = [{"type": "http.request", "body": body}]

        async def received() -> Message:
            return whole.pop() if whole else await receive()

        await self.app(scope, received, send)


async def _body(receive: Receive) -> bytes | None:
    """Return a body, or more of it than is allowed; None if its sender has gone."""
    body, more = b"", True
    while more and len(body) <= BODY_BYTES_MAX:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body
