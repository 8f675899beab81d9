"""A real, tiny MCP server over stdio, with one tool; `capabilities.toml` names it."""

from __future__ import annotations

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


if __name__ == "__main__":
    server.run("stdio")
