"""What the tools of agents are made of: the client of their caller, and errors in words."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, Protocol

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp_types import ToolAnnotations
from pydantic import Field

from interlock.kernel.errors import KernelError
from interlock.workers.access.roles import Act
from interlock.workers.client import Client
from interlock.workers.mcp.tool_server import OfferedTool
from interlock.workers.producer_message import send_message
from interlock.workers.remote.client import HttpClient

Verbs = Client | HttpClient
Fields = dict[str, Any]
Limit = Annotated[int, Field(ge=1, le=200)]


class Reach(Protocol):
    """Gives a tool the client of its caller. Raises KernelError if an act is not allowed."""

    def __call__(self, context: Context, act: Act, record_id: str = "", /) -> Verbs:
        """Return the client. `record_id` is the record that the act is about, if it is one."""


def offered_tool(
    act: Act, function: Callable[..., Any], *, ends: bool = False, example: str = ""
) -> OfferedTool:
    """Return a tool that calls a function, whose docstring is what agents read, and an example.

    `ends`: what it does cannot be undone. Of a KernelError the agent gets the sentence.
    """
    tool = Tool.from_function(_said(function), annotations=_hints(act, ends=ends))
    tool.description += example
    tool.parameters["additionalProperties"] = False
    return OfferedTool(act, tool)


def _hints(act: Act, *, ends: bool) -> ToolAnnotations:
    if act is Act.READ:
        return ToolAnnotations(read_only_hint=True)
    return ToolAnnotations(read_only_hint=False, destructive_hint=ends, idempotent_hint=True)


def _said(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that gives the sentence of an error to the agent."""

    @wraps(function)
    def called(*given: Any, **named: Any) -> Any:
        try:
            return function(*given, **named)
        except KernelError as refusal:
            raise ToolError(str(refusal)) from refusal

    return called


def send_by(reach: Reach, context: Context, kind: str, fields: Fields, op_id: str) -> Fields:
    """Do what a plain message of this kind asks for, as the caller of a tool."""
    client = reach(context, Act.SUBMIT)
    if isinstance(client, Client):
        sent: Fields = send_message(client, kind, fields, op_id)
    else:
        sent = client.send(kind, fields, op_id=op_id)
    return sent
