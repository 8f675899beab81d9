"""Tools of MCP servers as capabilities: the operator lists them and declares their risk.

A tool is offered only if it is in the operator's list, with the risk given there.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Coroutine, Mapping, Sequence
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pydantic import ValidationError

from interlock.kernel.payload import problem_of
from interlock.kernel.scales import Level
from interlock.workers.gateways.capabilities.capability import (
    Capability,
    CapabilityDefectError,
    closed_schema,
)
from interlock.workers.gateways.capabilities.extension import ExtensionError, ServerTable
from interlock.workers.gateways.capabilities.mcp_table import (
    ListedTool,
    McpTable,
    ToolTable,
    UnavailableError,
    refusal_of,
)
from interlock.workers.gateways.capabilities.result import Result
from interlock.workers.text import one_line

DISCOVERY_RETRY_S = 30.0
DESCRIPTION_LENGTH_MAX = 1000
# It is imported when a server is first talked to: the library of MCP takes most of a second.
CLIENT = "interlock.workers.gateways.capabilities.mcp_client"
_JOIN_S = 10.0
_ANYTHING: Mapping[str, Any] = {
    "type": "object",
    # Every capability's schema must forbid additional properties, so a pattern allows every name.
    "patternProperties": {"^": {}},
    "additionalProperties": False,
}
_T = TypeVar("_T")
_log = logging.getLogger(__name__)


class ServerClient(Protocol):
    """Asks one MCP server for its tools, and calls them."""

    async def listing(self) -> Mapping[str, ListedTool]:
        """Return the tools of the server by name. Raises UnavailableError."""

    async def call(self, table: ToolTable, /, **bound: Any) -> Result:
        """Call a tool. Raises nothing."""


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
                    listing = _wait_for(self._client.listing(), self._table.start_s + _JOIN_S)
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

    @cached_property
    def _client(self) -> ServerClient:
        client: ServerClient = import_module(CLIENT).McpClient(self._table, self._folder)
        return client

    def _placeholder(self, tool: ToolTable) -> Capability:
        why = f"A tool of the MCP server {self._table.name}, which does not offer it now."
        return self._capability(tool, why, _ANYTHING)

    def _built(self, listing: Mapping[str, ListedTool] | None) -> tuple[Capability, ...]:
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

    def _build(
        self, table: ToolTable, listing: Mapping[str, ListedTool] | None
    ) -> Capability | None:
        live = listing.get(table.tool) if listing else None
        if live is None and (listing is not None and not table.is_complete):
            raise UnavailableError(f"it has no tool {table.tool!r}")
        if live is not None and (refusal := refusal_of(table, live)):
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
            description=one_line(description, length_max=DESCRIPTION_LENGTH_MAX),
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

    async def _call(self, table: ToolTable, /, **bound: Any) -> Result:
        return await self._client.call(table, **bound)


def servers(tables: Sequence[ServerTable]) -> tuple[McpServer, ...]:
    """Return the servers that [[mcp]] tables describe. Starts none. Raises ExtensionError."""
    found = []
    for written in tables:
        try:
            table = McpTable.model_validate(written.table)
        except ValidationError as error:
            problem = problem_of(error.errors()[0])
            raise ExtensionError(written.file, f"[[mcp]] {problem}") from error
        try:
            found.append(McpServer(table, written.file.parent))
        except CapabilityDefectError as error:
            raise ExtensionError(written.file, f"[[mcp]] {table.name}: {error}") from error
    return tuple(found)


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
