"""One call of a tool by an agent: the client by which it acts, and errors in words."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from typing import Any, Protocol

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp_types import ToolAnnotations

from interlock.kernel.errors import KernelError
from interlock.workers.access.roles import Act
from interlock.workers.client import Client
from interlock.workers.mcp.tool_server import OfferedTool
from interlock.workers.producer_message import send_message
from interlock.workers.remote.client import HttpClient

Verbs = Client | HttpClient
Fields = dict[str, Any]
CONTEXT = "context"


class Reach(Protocol):
    """Gives a tool the client of its caller. Raises KernelError if an act is not allowed."""

    def __call__(self, context: Context, act: Act, record_id: str = "", /) -> Verbs:
        """Return the client. `record_id` is the record that the act is about, if it is one."""


class ToolCall:
    """A call of a tool, which the function of the tool gets as its first argument."""

    def __init__(self, reach: Reach, context: Context, act: Act) -> None:
        self._reach = reach
        self._context = context
        self._act = act

    def client(self, record_id: str = "") -> Verbs:
        """Return the client by which the agent acts, on this record if it is one.

        Raises KernelError if the agent may not do what the tool does.
        """
        return self._reach(self._context, self._act, record_id)

    def send(self, kind: str, fields: Fields, op_id: str) -> Fields:
        """Do what a plain message of this kind asks for; a repeated `op_id` does nothing more.

        Raises KernelError if the agent may not submit, whatever the tool is for.
        """
        client = self._reach(self._context, Act.SUBMIT)
        if isinstance(client, Client):
            sent: Fields = send_message(client, kind, fields, op_id)
        else:
            sent = client.send(kind, fields, op_id=op_id)
        return sent


def offered_tool(
    reach: Reach, act: Act, function: Callable[..., Any], *, ends: bool = False, example: str = ""
) -> OfferedTool:
    """Return a tool that calls a function, whose docstring is what agents read, and an example.

    `ends`: what it does cannot be undone. Of a KernelError the agent gets the sentence.
    """
    called = _called(reach, act, function)
    tool = Tool.from_function(called, context_kwarg=CONTEXT, annotations=_hints(act, ends=ends))
    tool.description += example
    tool.parameters["additionalProperties"] = False
    return OfferedTool(act, tool)


def _hints(act: Act, *, ends: bool) -> ToolAnnotations:
    if act is Act.READ:
        return ToolAnnotations(read_only_hint=True)
    return ToolAnnotations(read_only_hint=False, destructive_hint=ends, idempotent_hint=True)


def _called(reach: Reach, act: Act, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that makes the call, and gives the sentence of an error to the agent."""

    @wraps(function)
    def called(*, context: Context, **named: Any) -> Any:
        try:
            return function(ToolCall(reach, context, act), **named)
        except KernelError as refusal:
            raise ToolError(str(refusal)) from refusal

    written = signature(function, eval_str=True)
    _, *parameters = written.parameters.values()
    context = Parameter(CONTEXT, Parameter.KEYWORD_ONLY, annotation=Context)
    made: Any = called
    made.__signature__ = written.replace(parameters=[*parameters, context])
    return called
