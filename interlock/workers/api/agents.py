"""Serves the tools of agents at /mcp: the Model Context Protocol over streamable HTTP."""

from __future__ import annotations

from importlib import import_module

from fastapi.concurrency import run_in_threadpool
from starlette.datastructures import State
from starlette.requests import HTTPConnection
from starlette.types import Receive, Scope, Send

from interlock.kernel.errors import KernelError
from interlock.workers.api.access import who_calls
from interlock.workers.api.problems import (
    WRONG_METHOD,
    RefusedRequestError,
    answer,
    answer_refusal,
)

PATH = "/mcp"
BEARER = "bearer"
# The module that answers calls. It is imported at the first one, because the library of MCP takes
# most of a second.
TOOLS = "interlock.workers.api.agent_tools"


class AgentTools:
    """The tools at one address. Each caller shows an access token, whose roles bound the tools."""

    def __init__(self, state: State) -> None:
        self.state = state

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
            tools = await run_in_threadpool(import_module, TOOLS)
            await tools.answer_call(by, scope, receive, send)
