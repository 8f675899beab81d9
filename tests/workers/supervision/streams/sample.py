"""A coding agent's published stream: a whole sample, and functions that make single lines.

The sample has the shape that the program's own documentation and its users' recordings show; its
texts, ids and figures are made up.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from interlock.workers.supervision.reports import (
    AgentReady,
    Compacted,
    CompactNeeded,
    MessageWritten,
    RejectedLine,
    Report,
    SessionOpened,
    ToolCompleted,
    ToolStarted,
    UsageAdded,
    UsageTotal,
    UsedTokens,
    WorkFinished,
)
from interlock.workers.supervision.streams.claude import ClaudeStream

SAMPLE = (Path(__file__).parents[3] / "golden" / "agent_stream.jsonl").read_bytes().splitlines()
TOTAL = UsedTokens(312, 496, 9310, 38900)  # the sums in the sample's result, over its models
REPORTS = [
    SessionOpened("0b6c1f52-7a53-4a0e-9c54-2f8f6a1d9e01"),
    AgentReady(),
    UsageAdded(0, UsedTokens(4, 2, 5200, 11000), 16204),
    MessageWritten(""),
    MessageWritten("I run the tests first,\nthen read the code.", continues=True),
    ToolStarted("Bash", "toolu_01A"),
    UsageAdded(0, UsedTokens(output_tokens=146), 16204),
    ToolStarted("Read", "toolu_01B"),
    ToolCompleted("Read", "toolu_01B", success=True),
    ToolCompleted("Bash", "toolu_01A", success=False),
    UsageAdded(0, UsedTokens(1, 1, 420, 16200), 16621),
    MessageWritten(""),
    ToolStarted("Task", "toolu_01C"),
    UsageAdded(0, UsedTokens(3, 40, 2100, 0)),
    ToolStarted("Grep", "toolu_01D"),
    ToolCompleted("Grep", "toolu_01D", success=True),
    ToolCompleted("Task", "toolu_01C", success=True),
    CompactNeeded(),
    Compacted(),
    UsageAdded(0, UsedTokens(2, 3, 1500, 5100), 6602),
    MessageWritten(""),
    ToolStarted("Edit", "toolu_01E"),
    ToolCompleted("Edit", "toolu_01E", success=True),
    UsageAdded(0, UsedTokens(2, 1, 90, 6600), 6692),
    MessageWritten("The sum is right now and its test passes."),
    UsageTotal(87_654, TOTAL, final=True, added=UsageAdded(87_654, UsedTokens(300, 303))),
    WorkFinished("The sum is right now and its test passes."),
]


def fed(lines: Iterable[bytes], stream: ClaudeStream | None = None) -> list[Report | RejectedLine]:
    stream = stream or ClaudeStream()
    return [report for line in lines for report in stream.feed(line)]


def line(kind: str, **fields: Any) -> bytes:
    return json.dumps({"type": kind, **fields}).encode()


def init(session: str = "s1") -> bytes:
    return line("system", subtype="init", session_id=session)


def status(word: str | None, **fields: Any) -> bytes:
    return line("system", subtype="status", status=word, **fields)


def boundary() -> bytes:
    metadata = {"trigger": "auto", "pre_tokens": 9}
    return line("system", subtype="compact_boundary", compact_metadata=metadata)


def assistant(*blocks: Any, **fields: Any) -> bytes:
    inner = {"id": "m", "content": list(blocks), "usage": fields.pop("usage", None)}
    return line("assistant", message={**inner, **fields.pop("inner", {})}, **fields)


def tool_use(call_id: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "Bash", "input": {}}


def tool_result(call_id: str, **fields: Any) -> bytes:
    block = {"type": "tool_result", "tool_use_id": call_id, **fields}
    return line("user", message={"content": [block]})


def result(**fields: Any) -> bytes:
    return line("result", **{"subtype": "success", "is_error": False, "result": "", **fields})
