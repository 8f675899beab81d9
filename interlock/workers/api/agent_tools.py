"""Answers calls of the agents' tools over HTTP, each call with its caller's roles."""

from __future__ import annotations

from functools import cache
from typing import Any

from mcp.server.mcpserver import Context
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import Receive, Scope, Send

from interlock.kernel.errors import ForbiddenError
from interlock.workers.access.roles import Act, Caller
from interlock.workers.api.access import acting
from interlock.workers.mcp.tool_call import Verbs
from interlock.workers.mcp.tool_server import OfferedTool, ToolServer
from interlock.workers.mcp.tools import offered_tools

_CALLER = "interlock.caller"


async def answer_call(by: Caller, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a call of a caller. Calls share no state, so each gets its own server."""
    server = ToolServer(_tools(), by.acts if by.proved else frozenset({Act.READ}))
    # Who may call, and by which name of this computer, is asked by `who_calls`.
    open_to_all = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    server.streamable_http_app(
        stateless_http=True, json_response=True, transport_security=open_to_all
    )
    sessions = server.session_manager
    async with sessions.run():
        await sessions.handle_request({**scope, _CALLER: by}, receive, send)


def _reach(context: Context, act: Act, record_id: str = "") -> Verbs:
    request: Any = context.request_context.request
    by: Caller = request.scope[_CALLER]
    if act is not Act.READ and not by.proved:
        raise ForbiddenError(f"who shows no access token may not {act} here")
    return acting(request.app.state, by, act, record_id)


@cache
def _tools() -> list[OfferedTool]:
    """Return the tools, described once for all calls: that takes longer than all else of a call."""
    return offered_tools(_reach)
