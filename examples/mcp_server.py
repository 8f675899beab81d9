"""A real, tiny MCP server over stdio, with two tools; `capabilities.toml` names it."""

from __future__ import annotations

import asyncio
from typing import Annotated

from mcp.server import MCPServer
from pydantic import Field

server = MCPServer("words")


@server.tool()
def word_count(
    text: Annotated[
        str, Field(description="The text to count.", json_schema_extra={"x-from": "text"})
    ],
) -> dict[str, int]:
    """Count the words, the lines and the characters of a text."""
    return {"words": len(text.split()), "lines": len(text.splitlines()), "characters": len(text)}


@server.tool()
async def slow_echo(
    text: Annotated[str, Field(description="What to say back.")],
    seconds: Annotated[float, Field(description="How long to wait first.", ge=0, le=60)] = 1.0,
) -> str:
    """Say a text back after a while, as a slow service would."""
    await asyncio.sleep(seconds)
    return text


if __name__ == "__main__":
    server.run("stdio")
