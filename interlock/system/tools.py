"""The tools of agents that a system adds: `tools` of its `System` names what returns them."""

from __future__ import annotations

from interlock.workers.access.roles import Act
from interlock.workers.mcp.reach import (
    CHANGES,
    READS,
    Fields,
    Limit,
    Reach,
    offered_tool,
    said,
    send_by,
)
from interlock.workers.mcp.tool_server import OfferedTool

__all__ = [
    "CHANGES",
    "READS",
    "Act",
    "Fields",
    "Limit",
    "OfferedTool",
    "Reach",
    "offered_tool",
    "said",
    "send_by",
]
