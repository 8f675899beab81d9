"""Serves the tools of agents at /mcp: the Model Context Protocol over streamable HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi.concurrency import run_in_threadpool
from mcp.server.mcpserver import Context
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import State
from starlette.requests import HTTPConnection
from starlette.types import Receive, Scope, Send

from interlock.kernel.errors import ForbiddenError, KernelError
from interlock.workers.access.roles import Act, Caller
from interlock.workers.api.access import acting, who_calls
from interlock.workers.api.problems import (
    WRONG_METHOD,
    RefusedRequestError,
    answer,
    answer_refusal,
)
from interlock.workers.mcp.tools import Verbs, make_server, offered_tools

PATH = "/mcp"
BEARER = "bearer"
_CALLER = "interlock.caller"


class AgentTools:
    """The tools at one address. Each caller shows an access token, whose roles bound the tools."""

    def __init__(self, state: State) -> None:
        self.state = state
        server = make_server(_TOOLS)
        # Who may call, and by which name of this computer, is asked by `who_calls`.
        open_to_all = TransportSecuritySettings(enable_dns_rebinding_protection=False)
        server.streamable_http_app(
            stateless_http=True, json_response=True, transport_security=open_to_all
        )
        self._sessions = server.session_manager

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Answer calls until the block ends."""
        async with self._sessions.run():
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a call of who may call."""
        if scope["method"] != "POST":
            await answer(WRONG_METHOD, "send a message by POST")(scope, receive, send)
            return
        request = HTTPConnection(scope)
        scheme, _, shown = request.headers.get("Authorization", "").partition(" ")
        token = shown.strip() if scheme.lower() == BEARER else None
        try:
            by = await run_in_threadpool(who_calls, self.state, request, token)
        except RefusedRequestError as refusal:
            await answer(refusal.kind, str(refusal), **refusal.more)(scope, receive, send)
        except KernelError as refusal:
            await answer_refusal(refusal)(scope, receive, send)
        else:
            await self._sessions.handle_request({**scope, _CALLER: by}, receive, send)


def _reach(context: Context, act: Act, record_id: str = "") -> Verbs:
    request: Any = context.request_context.request
    by: Caller = request.scope[_CALLER]
    if act is not Act.READ and not by.proved:
        raise ForbiddenError(f"who shows no access token may not {act} here")
    return acting(request.app.state, by, act, record_id)


# They are described once for all applications, which takes longer than all else of a server.
_TOOLS = offered_tools(_reach, frozenset({Act.READ, Act.SUBMIT, Act.DECIDE}))
