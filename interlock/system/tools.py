"""The tools of agents that a system adds: `tools` of its `System` names what returns them."""

from __future__ import annotations

from interlock.workers.access.roles import Act
from interlock.workers.mcp.reach import Reach, offered_tool, send_by
from interlock.workers.mcp.tool_server import OfferedTool

__all__ = [
    "Act",
    "OfferedTool",
    "Reach",
    "offered_tool",
    "send_by",
]
