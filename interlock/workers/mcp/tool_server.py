"""A server of tools that lists what its caller may use, and says in words what is wrong."""

from __future__ import annotations

from collections.abc import Container, Iterable
from importlib.metadata import version
from typing import Any, NamedTuple

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp_types import CallToolResult, InputRequiredResult
from mcp_types import Tool as ListedTool
from pydantic import ValidationError

from interlock.kernel.payload import problem_of
from interlock.workers.access.roles import Act

ABOUT = """Interlock runs long work of agents and people. Each piece of work is a record: it is in a
state of its machine. `list_cards` shows what waits for a person,
`why_not` why a record does not go on."""


class OfferedTool(NamedTuple):
    """A tool, and what a caller must be allowed to do to use it."""

    act: Act
    tool: Tool


class ToolServer(MCPServer[Any]):
    """A server with these tools, which lists those for some acts.

    The others can be called all the same: they say why the caller may not use them.
    """

    def __init__(self, offered: Iterable[OfferedTool], acts: Container[Act]) -> None:
        self._offered = {each.tool.name: each for each in offered}
        self._acts = acts
        super().__init__(
            "interlock",
            instructions=ABOUT,
            version=version("interlock"),
            log_level="WARNING",
            tools=[each.tool for each in self._offered.values()],
        )

    async def list_tools(self) -> list[ListedTool]:
        """List the tools that the caller may use."""
        tools = await super().list_tools()
        return [tool for tool in tools if self._offered[tool.name].act in self._acts]

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Call a tool with the arguments that it takes, and no others."""
        if name in self._offered:
            _check_arguments(self._offered[name].tool, arguments)
        return await super().call_tool(name, arguments, context)


def _check_arguments(tool: Tool, arguments: dict[str, Any]) -> None:
    known = tool.parameters["properties"]
    if unknown := [name for name in arguments if name not in known]:
        named = f"{unknown[0]!r}; its arguments: {', '.join(known)}"
        raise ToolError(f"{tool.name} has no argument {named}")
    try:
        tool.fn_metadata.validate_arguments(arguments)
    except ValidationError as refusal:
        errors = refusal.errors(include_url=False)
        problems = [problem_of(error) for error in errors]
        raise ToolError(f"{tool.name}: {'; '.join(problems)}") from None
