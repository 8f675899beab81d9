"""Tools of MCP servers as capabilities: the operator lists them and declares their risk.

Each call starts the server, or connects to its address, asks for its tools, calls one, and ends the
server with all its children, or the connection. That is slower than a lasting session, but a server
that hangs, crashes or leaks spoils only one call. A tool is offered only if it is in the operator's
list, with the risk given there.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

import anyio
import httpx2
from mcp import Client, MCPError
from mcp_types import CallToolResult, TextContent, Tool
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from interlock.kernel.scales import Level
from interlock.workers.gateways.capabilities.capability import (
    Capability,
    CapabilityDefectError,
    closed_schema,
    problems_of,
)
from interlock.workers.gateways.capabilities.extension import ExtensionError, ServerTable
from interlock.workers.gateways.capabilities.mcp_remote import RemoteTransport, check_address
from interlock.workers.gateways.capabilities.mcp_transport import McpTransport
from interlock.workers.gateways.capabilities.result import Failed, Result, Succeeded
from interlock.workers.text import sentence

LISTING_PAGES_MAX = 20
DISCOVERY_RETRY_S = 30.0
DESCRIPTION_LENGTH_MAX = 1000
NOT_REVIEWED = "?"  # instead of a tool's fingerprint, to be told it
_JOIN_S = 10.0
_ANYTHING: Mapping[str, Any] = {
    "type": "object",
    # Every capability's schema must forbid additional properties, so a pattern allows every name.
    "patternProperties": {"^": {}},
    "additionalProperties": False,
}
_Severity = Literal["low", "medium", "high"]
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


class ToolTable(BaseModel):
    """One [[mcp.tool]]: the operator's declaration of a tool. The server's own hints are ignored.

    If `description` and `parameters` are given, the server is not asked for them. `sha256` is a
    fingerprint of the tool as it was reviewed; a tool that differs is refused. `runtime` sets
    parameters of the tool to run-time values, as in {request_id = "key"}; neither the model nor a
    person sees these parameters.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    tool: str = Field(min_length=1)
    name: str = ""
    description: str | None = None
    parameters: dict[str, Any] | None = None
    idempotent: bool
    irreversibility: _Severity
    regret_potential: _Severity | None = None
    risk_amplifier: bool = False
    requires_post_review: bool = False
    deadline_s: float = 60.0
    examples: tuple[str, ...] = ()
    runtime: dict[str, Literal["record_id", "key", "item_ids", "token_number"]] = {}
    sha256: str | None = None

    @property
    def capability_name(self) -> str:
        """The name of the capability: `name`, or without it the name of the tool."""
        return self.name or self.tool

    @property
    def is_complete(self) -> bool:
        """Whether the table has all that a catalog needs."""
        return bool(self.description) and self.parameters is not None


class McpTable(BaseModel):
    """One [[mcp]]: how to start a server, in the file's folder or in `cwd` below it; or its `url`.

    The command `{python}` is the interpreter of this process. A server gets HOME, PATH and similar
    variables and those in `env`, but not the worker's own settings and keys. One with an address is
    shown the token in the worker's variable `token_variable`, and each of its tools needs `sha256`:
    others can change it at any time.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(min_length=1)
    command: str = ""
    url: str = ""
    token_variable: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str = "."
    start_s: float = Field(default=15.0, gt=0, le=120)
    tool: tuple[ToolTable, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _one_place(self) -> McpTable:
        if bool(self.command) == bool(self.url):
            raise ValueError("give either a command or a url")
        if not self.url:
            return self
        check_address(self.url)
        if of_commands := sorted({"args", "env", "cwd"} & self.model_fields_set):
            raise ValueError(f"{of_commands[0]} is for a server with a command")
        if open_tools := [tool.tool for tool in self.tool if tool.sha256 is None]:
            problem = f"{open_tools[0]} needs sha256, as others can change the server"
            raise ValueError(f'{problem}; with "?" the error has it')
        return self


class UnavailableError(Exception):
    """A server, or one of its tools, cannot be used now."""


class McpServer:
    """The tools of a server as capabilities. The server is asked for them until it answers once."""

    def __init__(self, table: McpTable, folder: Path) -> None:
        self.names = tuple(tool.capability_name for tool in table.tool)
        self._table = table
        self._folder = folder
        self._lock = threading.Lock()
        self._offered: tuple[Capability, ...] | None = None
        self._left_out: dict[str, str] = {}
        self._retry_at = 0.0
        self._placeholders = {tool.capability_name: self._placeholder(tool) for tool in table.tool}

    def offered(self) -> tuple[Capability, ...]:
        """Return the tools that can be called now, by the server's list. Raises nothing."""
        tools = self._table.tool
        with self._lock:
            if self._offered is None and all(tool.is_complete for tool in tools):
                self._offered = self._built(None)
            if self._offered is None and time.monotonic() >= self._retry_at:
                try:
                    listing = _wait_for(self.listing(), self._table.start_s + _JOIN_S)
                    self._offered = self._built(listing)
                except UnavailableError as error:
                    self._retry_at = time.monotonic() + DISCOVERY_RETRY_S
                    lacking = [tool for tool in tools if not tool.is_complete]
                    self._left_out = {tool.capability_name: str(error) for tool in lacking}
                    _log.warning("the tools of an MCP server are left out for now: %s", error)
            return self._built(None) if self._offered is None else self._offered

    def left_out(self) -> Mapping[str, str]:
        """Return why tools cannot be called now, by the names of their capabilities."""
        self.offered()
        return dict(self._left_out)

    def capability(self, name: str) -> Capability:
        """Return a tool; if the server is down, a tool that takes any parameters and fails."""
        for tool in self.offered():
            if tool.name == name:
                return tool
        return self._placeholders[name]

    def _placeholder(self, tool: ToolTable) -> Capability:
        why = f"A tool of the MCP server {self._table.name}, which does not offer it now."
        return self._capability(tool, why, _ANYTHING)

    def _built(self, listing: Mapping[str, Tool] | None) -> tuple[Capability, ...]:
        """Return the tools that can be called by what the server listed; None: it was not asked."""
        found = []
        for table in self._table.tool:
            try:
                if (capability := self._build(table, listing)) is not None:
                    found.append(capability)
            except (CapabilityDefectError, UnavailableError) as error:
                self._left_out[table.capability_name] = f"{self._table.name}: {error}"
                _log.warning("a tool of %s is left out: %s", self._table.name, error)
        return tuple(found)

    def _build(self, table: ToolTable, listing: Mapping[str, Tool] | None) -> Capability | None:
        live = listing.get(table.tool) if listing else None
        if live is None and (listing is not None and not table.is_complete):
            raise UnavailableError(f"it has no tool {table.tool!r}")
        if live is not None and (refusal := _refusal(table, live)):
            raise UnavailableError(f"it {refusal}")
        description, schema = table.description, table.parameters
        if live is not None:
            description = description or live.description or table.tool
            schema = live.input_schema if schema is None else schema
        if description is None or schema is None:
            return None
        return self._capability(table, description, schema)

    def _capability(
        self, table: ToolTable, description: str, schema: Mapping[str, Any]
    ) -> Capability:
        return Capability(
            name=table.capability_name,
            description=sentence(description, length_max=DESCRIPTION_LENGTH_MAX),
            parameters=closed_schema(table.capability_name, schema, without=set(table.runtime)),
            call=partial(self._call, table),
            runtime=frozenset(table.runtime.values()),
            idempotent=table.idempotent,
            irreversibility=Level(table.irreversibility),
            regret_potential=Level(table.regret_potential or table.irreversibility),
            risk_amplifier=table.risk_amplifier,
            requires_post_review=table.requires_post_review,
            deadline_s=table.deadline_s,
            examples=table.examples,
        )

    async def listing(self) -> Mapping[str, Tool]:
        """Start the server, ask for its tools, end it. Raises UnavailableError."""

        async def nothing_more(_: Client, tools: Mapping[str, Tool]) -> Mapping[str, Tool]:
            return tools

        return await self._talk(self._transport(), nothing_more)

    async def _call(self, table: ToolTable, /, **bound: Any) -> Result:
        mapped = {parameter: bound[value] for parameter, value in table.runtime.items()}
        rest = {name: bound[name] for name in bound if name not in table.runtime.values()}
        transport = self._transport()
        try:
            answer = await self._talk(transport, partial(self._use, table, {**rest, **mapped}))
        except UnavailableError as error:
            return Failed("unavailable", sentence(str(error)))
        if isinstance(answer, Exception):
            return self._failed("error", f"failed during the call: {transport.explain(answer)}")
        return answer

    async def _use(
        self,
        table: ToolTable,
        arguments: dict[str, Any],
        client: Client,
        tools: Mapping[str, Tool],
    ) -> Result | Exception:
        tool = tools.get(table.tool)
        if tool is None:
            return self._failed("unavailable", f"has no tool {table.tool!r}")
        if refusal := _refusal(table, tool):
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
        talk: Callable[[Client, Mapping[str, Tool]], Awaitable[_T]],
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
        return Failed(code, sentence(f"the MCP server {self._table.name} {reason}"))


def servers(tables: Sequence[ServerTable]) -> tuple[McpServer, ...]:
    """Return the servers that [[mcp]] tables describe. Starts none. Raises ExtensionError."""
    found = []
    for written in tables:
        try:
            table = McpTable.model_validate(written.table)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise ExtensionError(written.file, f"[[mcp]] {where}: {first['msg']}") from error
        try:
            found.append(McpServer(table, written.file.parent))
        except CapabilityDefectError as error:
            raise ExtensionError(written.file, f"[[mcp]] {table.name}: {error}") from error
    return tuple(found)


def fingerprint(tool: Tool) -> str:
    """Return the sha256 of what a model sees of a tool: its description and its schema."""
    shown = {"description": tool.description, "parameters": tool.input_schema}
    text = json.dumps(shown, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _refusal(table: ToolTable, tool: Tool) -> str | None:
    if table.sha256 is None or fingerprint(tool) == table.sha256:
        return None
    if table.sha256 == NOT_REVIEWED:
        review = f"has the tool {table.tool!r}, which is not reviewed yet; review it"
        return f"{review}, then set sha256 = {fingerprint(tool)!r}"
    return (
        f"has changed the description or parameters of {table.tool!r} since it was reviewed; "
        f"review it, then set sha256 = {fingerprint(tool)!r}"
    )


async def _listed(client: Client) -> Mapping[str, Tool]:
    tools: dict[str, Tool] = {}
    cursor: str | None = None
    for _ in range(LISTING_PAGES_MAX):
        page = await client.list_tools(cursor=cursor)
        tools |= {tool.name: tool for tool in page.tools}
        cursor = page.next_cursor
        if cursor is None:
            break
    return tools


def _result(answer: CallToolResult) -> Result:
    texts = [_text_of_block(block) for block in answer.content]
    text = "\n".join(texts)
    if answer.is_error:
        return Failed("error", sentence(text) or "the tool failed without saying why")
    if answer.structured_content is not None:
        return Succeeded(answer.structured_content)
    return Succeeded(text)


def _text_of_block(block: object) -> str:
    # A log keeps no picture or sound; the text says that there was one.
    return block.text if isinstance(block, TextContent) else f"[{type(block).__name__} left out]"


def _wait_for(asking: Coroutine[Any, Any, _T], wait_s: float) -> _T:
    """Run a coroutine in a thread and wait for it; the caller may itself run in an event loop."""
    answers: list[_T | Exception] = []

    def ask() -> None:
        try:
            answers.append(asyncio.run(asking))
        except UnavailableError as error:
            answers.append(error)

    thread = threading.Thread(target=ask, name="interlock-mcp-discovery", daemon=True)
    thread.start()
    thread.join(wait_s)
    if not answers:
        raise UnavailableError("an MCP server did not list its tools in time")
    answer = answers[0]
    if isinstance(answer, Exception):
        raise answer
    return answer
