"""Reads the output of a process with a session, by the name of its format.

Our own lines have the types of an agent's reports, and seven more: the session, a message, three
kinds of costs, the result, a full context. Reports that have no meaning in a session are rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from interlock.workers.specs.json_line import (
    Fields,
    LineError,
    check_plain,
    read_fields,
    read_flag,
    read_name,
    read_number,
    read_object,
    read_remark,
    shown,
)
from interlock.workers.supervision.reports import LINE_BYTES_MAX, RejectedLine, parse_line
from interlock.workers.supervision.session_reports import (
    ContextExceeded,
    CostsAdded,
    CostsFinal,
    CostsSet,
    MessageWritten,
    ResultReached,
    SessionOpened,
    SessionReport,
    SessionStream,
    TokenCounts,
    as_session_report,
)
from interlock.workers.supervision.streams.claude_session import ClaudeSessionStream


class PlainSessionStream:
    """Reports nothing: the lines of a plain command are a log, whatever they look like."""

    line_bytes_max = LINE_BYTES_MAX
    reports_result = False

    def feed(self, line: bytes) -> Sequence[SessionReport | RejectedLine]:
        """Return nothing."""
        del line
        return ()


class InterlockSessionStream:
    """Reads our own JSON lines, each by itself."""

    line_bytes_max = LINE_BYTES_MAX
    reports_result = True

    def feed(self, line: bytes) -> Sequence[SessionReport | RejectedLine]:
        """Return the line's report, or the reason why it has none; nothing for a blank line."""
        return (read_session_report(line),) if line.strip() else ()


# A new format needs its line here.
SESSION_STREAMS: Mapping[str, Callable[[], SessionStream]] = {
    "plain": PlainSessionStream,
    "interlock": InterlockSessionStream,
    "claude": ClaudeSessionStream,
}


def read_session_report(line: bytes) -> SessionReport | RejectedLine:
    """Read one line. Never raises: a faulty line becomes a RejectedLine with one sentence."""
    try:
        message = read_object(line, bytes_max=LINE_BYTES_MAX)
        check_plain(message)
        name = _kind(message)
        if name in _AGENT_TYPES:
            return as_session_report(parse_line(line))
        make, fields = _SHAPES[name]
        given = {field: value for field, value in message.items() if field != "type"}
        return make(**read_fields(given, fields, object_name=name))
    except LineError as error:
        return RejectedLine(str(error))


def _kind(message: Mapping[str, Any]) -> str:
    if "type" not in message:
        raise LineError("the line has no type")
    name = message["type"]
    known = (*_SHAPES, *_AGENT_TYPES)
    if not isinstance(name, str) or name not in known:
        raise LineError(f"{shown(name)} is no type of report; known: {', '.join(known)}")
    return name


def _tokens(value: object, where: str) -> TokenCounts:
    if not isinstance(value, dict):
        raise LineError(f"{where} must be an object, it is {shown(value)}")
    return TokenCounts(**read_fields(value, _TOKENS, object_name=where))


def _size(value: object, where: str) -> int:
    return read_number(value, where, minimum=1)


def _added(
    *,
    cost_micro: int | None = None,
    context_used: int | None = None,
    context_size: int | None = None,
    **tokens: int,
) -> CostsAdded:
    if not tokens and cost_micro is None and context_used is None and context_size is None:
        raise LineError("usage has no number; give tokens, context or cost")
    kinds = {_USAGE_NAMES.get(name, name): number for name, number in tokens.items()}
    return CostsAdded(cost_micro or 0, TokenCounts(**kinds), context_used, context_size)


# In a usage line two kinds have the names that they have in agents' reports.
_USAGE_NAMES = {"tokens_in": "input_tokens", "tokens_out": "output_tokens"}
_AGENT_TYPES = (
    "ready",
    "tool_started",
    "tool_completed",
    "compact_needed",
    "compacted",
    "progress",
    "verify_requested",
    "failed",
)
_TOKENS: Fields = {
    "input_tokens?": read_number,
    "output_tokens?": read_number,
    "cache_creation_tokens?": read_number,
    "cache_read_tokens?": read_number,
}
_COSTS: Fields = {"cost_micro": read_number, "tokens?": _tokens}

# A field with a question mark may be left out.
# fmt: off
_SHAPES: Mapping[str, tuple[Callable[..., SessionReport], Fields]] = {
    "session":          (SessionOpened,   {"id": read_name}),
    "message":          (MessageWritten,  {"text": read_remark, "continues?": read_flag}),
    "usage":            (_added,          {"tokens_in?": read_number, "tokens_out?": read_number,
                                           "cache_creation_tokens?": read_number,
                                           "cache_read_tokens?": read_number,
                                           "context_used?": read_number, "context_size?": _size,
                                           "cost_micro?": read_number}),
    "costs":            (CostsSet,        _COSTS),
    "final_costs":      (CostsFinal,      _COSTS),
    "result":           (ResultReached,   {"text?": read_remark}),
    "context_exceeded": (ContextExceeded, {"detail?": read_remark}),
}
# fmt: on
