"""Whatever an MCP server answers, its tools are left out or a call fails: nothing is raised."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import reduce
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mcp.shared.message import SessionMessage
from mcp_types import Tool, jsonrpc_message_adapter

from interlock.workers.gateways.capabilities import mcp
from interlock.workers.gateways.capabilities.call import call_capability
from interlock.workers.gateways.capabilities.extension import ServerTable
from interlock.workers.gateways.capabilities.mcp_table import ListedTool
from interlock.workers.gateways.capabilities.mcp_transport import McpTransport
from interlock.workers.gateways.capabilities.registry import InvalidParametersError, Registry
from interlock.workers.gateways.capabilities.result import Succeeded, fit
from tests.damage import chances, damaged, torn

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "way": {"$ref": "#/$defs/way"},
        "times": {"anyOf": [{"type": "integer", "minimum": 1}, {"enum": ["once", None]}]},
        "request_id": {"type": "string"},
    },
    "required": ["way", "request_id"],
    "$defs": {"way": {"type": "string", "pattern": "^a", "maxLength": 9}},
}
TOOL: dict[str, Any] = {"name": "act", "description": "Act in a way.", "inputSchema": SCHEMA}
RESULTS: dict[str, Any] = {
    "initialize": {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "fake", "version": "1"},
    },
    "tools/list": {"tools": [TOOL], "nextCursor": None},
    "tools/call": {
        "content": [{"type": "text", "text": "done"}],
        "structuredContent": {"way": "a", "more": [1, {"x": 2}]},
        "isError": False,
    },
}
TABLE: dict[str, Any] = {
    "tool": "act",
    "idempotent": False,
    "irreversibility": "high",
    "runtime": {"request_id": "key"},
}
DEEP: dict[str, Any] = reduce(lambda inner, _: {"properties": {"x": inner}}, range(99), {})
OFTEN = 0.2


class Answering(McpTransport):
    """A connection to a server whose answers to one method are damaged."""

    def __init__(self, method: str, chance: Random) -> None:
        super().__init__([], Path(), {})
        self.method, self.chance = method, chance

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Any]:
        to_client, incoming = anyio.create_memory_object_stream[Any](9)
        outgoing, from_client = anyio.create_memory_object_stream[Any](9)

        async def answer() -> None:
            async for asked in from_client:
                if not hasattr(asked.message, "id"):
                    continue
                try:
                    await to_client.send(self._answer(asked.message))
                except ValueError:
                    # Instead of a client that waits for an answer until its time is over.
                    to_client.close()
                    return

        async with to_client, incoming, outgoing, from_client, anyio.create_task_group() as group:
            group.start_soon(answer)
            yield incoming, outgoing
            group.cancel_scope.cancel()

    def _answer(self, asked: Any) -> SessionMessage:
        result = RESULTS.get(asked.method)
        if asked.method == self.method:
            result = damaged(result, self.chance)
        message = {"jsonrpc": "2.0", "id": asked.id, "result": result}
        if asked.method not in RESULTS:
            message = {"jsonrpc": "2.0", "id": asked.id, "error": {"code": -1, "message": "no"}}
        text = json.dumps(message).encode()
        if asked.method == self.method and self.chance.random() < OFTEN:
            text = torn(text, self.chance)
        return SessionMessage(jsonrpc_message_adapter.validate_json(text, by_name=False))


def server(method: str, chance: Random, **more: Any) -> mcp.McpServer:
    """Return a server whose answers to a method are damaged."""
    table = {"name": "fake", "command": "none", "start_s": 1, "tool": [{**TABLE, **more}]}
    (found,) = mcp.servers([ServerTable(Path("capabilities.toml"), table)])
    client: Any = found._client
    client._transport = lambda: Answering(method, chance)
    return found


def bound_by(found: mcp.McpServer) -> tuple[Registry, dict[str, Any]]:
    registry = Registry([], [found])
    parameters = {"way": "a", "times": 2}
    return registry, registry.bind("act", parameters, {"key": "k-1"})


@pytest.mark.fuzz
@given(method=st.sampled_from(["initialize", "tools/list"]), chance=chances)
@example(method="tools/list", chance=Random(180))  # it lists no tool at all
def test_a_tool_of_which_a_server_tells_anything_is_offered_or_left_out(
    method: str, chance: Random
) -> None:
    found = server(method, chance)

    assert bool(found.offered()) != bool(found.left_out())
    with suppress(InvalidParametersError):
        bound_by(found)


@pytest.mark.fuzz
@given(chance=chances)
def test_a_schema_that_a_server_tells_makes_a_tool_or_a_reason(chance: Random) -> None:
    text = json.dumps({**TOOL, "inputSchema": damaged(SCHEMA, chance)})
    with suppress(ValueError):
        check_schema(Tool.model_validate_json(text))


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": None},
        {"type": "object", "required": [["way"]]},
        DEEP,
    ],
    ids=["no properties", "a list as a name", "deep"],
)
def test_what_is_no_schema_leaves_its_tool_out(schema: dict[str, Any]) -> None:
    assert not check_schema(Tool(name="act", description="Act.", input_schema=schema))


def check_schema(tool: Tool) -> bool:
    """Whether a tool is offered. If it is, check parameters by its schema, whatever comes of it."""
    found = server("", Random())
    listed = ListedTool(tool.description, tool.input_schema)
    found._offered = found._built({"act": listed})
    assert bool(found.offered()) != bool(found.left_out())
    with suppress(InvalidParametersError):
        bound_by(found)
    return bool(found.offered())


@pytest.mark.fuzz
@given(chance=chances)
def test_any_answer_to_a_call_is_a_result(chance: Random) -> None:
    found = server("tools/call", chance, description="Act.", parameters=SCHEMA)
    registry, bound = bound_by(found)
    result = asyncio.run(call_capability(registry["act"], bound, deadline_s=5))

    assert not isinstance(result, Succeeded) or fit(result.value) == (result.value, False)
