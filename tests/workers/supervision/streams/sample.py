"""A coding agent's published stream: a whole sample, and lines of it made to measure.

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
    Progress,
    RejectedLine,
    Report,
    TokensUsed,
    ToolCompleted,
    ToolStarted,
    VerifyRequested,
)
from interlock.workers.supervision.streams.claude import ClaudeStream

SAMPLE = (Path(__file__).parents[3] / "golden" / "agent_stream.jsonl").read_bytes().splitlines()
REPORTS = [
    AgentReady(),
    TokensUsed(tokens_in=16204, tokens_out=2, context_used=16204),
    Progress("I run the tests first, then read the code."),
    ToolStarted("Bash", "toolu_01A"),
    TokensUsed(tokens_in=0, tokens_out=146, context_used=16204),
    ToolStarted("Read", "toolu_01B"),
    ToolCompleted("Read", "toolu_01B", success=True),
    ToolCompleted("Bash", "toolu_01A", success=False),
    TokensUsed(tokens_in=16621, tokens_out=1, context_used=16621),
    ToolStarted("Task", "toolu_01C"),
    TokensUsed(tokens_in=2103, tokens_out=40),
    ToolStarted("Grep", "toolu_01D"),
    ToolCompleted("Grep", "toolu_01D", success=True),
    ToolCompleted("Task", "toolu_01C", success=True),
    CompactNeeded(),
    Compacted(),
    TokensUsed(tokens_in=6602, tokens_out=3, context_used=6602),
    ToolStarted("Edit", "toolu_01E"),
    ToolCompleted("Edit", "toolu_01E", success=True),
    TokensUsed(tokens_in=6692, tokens_out=1, context_used=6692),
    Progress("The sum is right now and its test passes."),
    TokensUsed(tokens_in=300, tokens_out=303, context_size=200_000, cost_micro=87_654),
    VerifyRequested("The sum is right now and its test passes."),
]
TOKENS_IN = 9 + 7210 + 38900 + 303 + 2100  # as the sample's result has them, model by model
TOKENS_OUT = 401 + 95


def fed(lines: Iterable[bytes], stream: ClaudeStream | None = None) -> list[Report | RejectedLine]:
    stream = stream or ClaudeStream()
    return [one for line in lines for one in stream.feed(line)]


def line(of: str, **fields: Any) -> bytes:
    return json.dumps({"type": of, **fields}).encode()


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


def tool_use(of: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": of, "name": "Bash", "input": {}}


def tool_result(of: str, **fields: Any) -> bytes:
    block = {"type": "tool_result", "tool_use_id": of, **fields}
    return line("user", message={"content": [block]})


def result(**fields: Any) -> bytes:
    return line("result", **{"subtype": "success", "is_error": False, "result": "", **fields})
