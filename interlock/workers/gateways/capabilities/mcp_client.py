"""A client of one MCP server: asks for its tools, or calls one of them.

Each call starts the server, or connects to its address, asks for its tools, calls one, and ends the
server with all its children, or the connection. That is slower than a lasting session, but a server
that hangs, crashes or leaks spoils only one call.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

import anyio
import httpx2
from mcp import Client, MCPError
from mcp_types import CallToolResult, TextContent

from interlock.workers.gateways.capabilities.capability import problems_of
from interlock.workers.gateways.capabilities.mcp_remote import RemoteTransport
from interlock.workers.gateways.capabilities.mcp_table import (
    ListedTool,
    McpTable,
    ToolTable,
    UnavailableError,
    refusal_of,
)
from interlock.workers.gateways.capabilities.mcp_transport import McpTransport
from interlock.workers.gateways.capabilities.result import Failed, Result, Succeeded
from interlock.workers.text import one_line

LISTING_PAGES_MAX = 20
_T = TypeVar("_T")
# The errors of a client whose server misbehaves; a task group wraps them in an ExceptionGroup.
_BROKEN = (
    OSError,
    ValueError,
    RuntimeError,
    httpx2.HTTPError,
    MCPError,
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
    anyio.EndOfStream,
    ExceptionGroup,
)
_log = logging.getLogger(__name__)


class McpClient:
    """Lists the tools of one server and calls them, each time over a new connection."""

    def __init__(self, table: McpTable, folder: Path) -> None:
        self._table, self._folder = table, folder

    async def listing(self) -> Mapping[str, ListedTool]:
        """Start the server, ask for its tools, and end it. Raises UnavailableError."""

        async def nothing_more(
            _: Client, tools: Mapping[str, ListedTool]
        ) -> Mapping[str, ListedTool]:
            return tools

        return await self._talk(self._transport(), nothing_more)

    async def call(self, table: ToolTable, /, **bound: Any) -> Result:
        """Start the server, call one of its tools with bound parameters, end it."""
        mapped = {parameter: bound[value] for parameter, value in table.runtime.items()}
        rest = {name: bound[name] for name in bound if name not in table.runtime.values()}
        transport = self._transport()
        try:
            answer = await self._talk(transport, partial(self._use, table, {**rest, **mapped}))
        except UnavailableError as error:
            return Failed("unavailable", one_line(str(error)))
        if isinstance(answer, Exception):
            return self._failed("error", f"failed during the call: {transport.explain(answer)}")
        return answer

    async def _use(
        self,
        table: ToolTable,
        arguments: dict[str, Any],
        client: Client,
        tools: Mapping[str, ListedTool],
    ) -> Result | Exception:
        tool = tools.get(table.tool)
        if tool is None:
            return self._failed("unavailable", f"has no tool {table.tool!r}")
        if refusal := refusal_of(table, tool):
            return self._failed("unavailable", refusal)
        # Checked again: the first check used a list of tools that may be a day old.
        if problems := problems_of(tool.input_schema, arguments):
            return self._failed("error", f"refuses the parameters: {'; '.join(problems)}")
        try:
            return _result(await client.call_tool(table.tool, arguments))
        except _BROKEN as error:
            return error

    async def _talk(
        self,
        transport: McpTransport | RemoteTransport,
        talk: Callable[[Client, Mapping[str, ListedTool]], Awaitable[_T]],
    ) -> _T:
        """Start the server and talk to it. Raises UnavailableError if it cannot be talked to."""
        starting = asyncio.timeout(self._table.start_s)
        answers: list[_T] = []
        try:
            async with starting, Client(transport.connected(), cache=None) as client:
                tools = await _listed(client)
                starting.reschedule(None)
                answers.append(await talk(client, tools))
        except _BROKEN as error:
            if not answers:
                why = (
                    f"did not answer within {self._table.start_s:g} s"
                    if starting.expired()
                    else f"cannot be used: {transport.explain(error)}"
                )
                raise UnavailableError(f"the MCP server {self._table.name} {why}") from error
            # The server has answered, so an error while it ends changes nothing.
            _log.warning("%s: %s", self._table.name, transport.explain(error))
        return answers[0]

    def _transport(self) -> McpTransport | RemoteTransport:
        table = self._table
        if table.url:
            return RemoteTransport(table.url, table.token_variable)
        command = sys.executable if table.command == "{python}" else table.command
        return McpTransport([command, *table.args], self._folder / table.cwd, table.env)

    def _failed(self, code: Literal["error", "unavailable"], reason: str) -> Failed:
        return Failed(code, one_line(f"the MCP server {self._table.name} {reason}"))


async def _listed(client: Client) -> Mapping[str, ListedTool]:
    tools: dict[str, ListedTool] = {}
    cursor: str | None = None
    for _ in range(LISTING_PAGES_MAX):
        page = await client.list_tools(cursor=cursor)
        tools |= {tool.name: ListedTool(tool.description, tool.input_schema) for tool in page.tools}
        cursor = page.next_cursor
        if cursor is None:
            break
    return tools


def _result(answer: CallToolResult) -> Result:
    texts = [_text_of_block(block) for block in answer.content]
    text = "\n".join(texts)
    if answer.is_error:
        return Failed("error", one_line(text) or "the tool failed without saying why")
    if answer.structured_content is not None:
        return Succeeded(answer.structured_content)
    return Succeeded(text)


def _text_of_block(block: object) -> str:
    # A log keeps no picture or sound; the text says that there was one.
    return block.text if isinstance(block, TextContent) else f"[{type(block).__name__} left out]"
