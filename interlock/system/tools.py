"""The tools of agents that a system adds: `tools` of its `System` names the module of them.

    def drop(call: ToolCall, translation: str) -> dict[str, str]:
        "Drop a translation."  # what agents read
        return {"state": call.client(translation).cancel(translation).state}

    READS = ()  # functions that only read
    SUBMITS = (drop,)  # and those that create and cancel records

Of a KernelError that a function raises, the agent reads the sentence.
"""

from __future__ import annotations

from interlock.workers.mcp.tool_call import ToolCall

__all__ = [
    "ToolCall",
]
