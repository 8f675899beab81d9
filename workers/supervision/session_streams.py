"""How a codon's process is understood, by the name its step has for it; it acts on nothing.

The lines are those of agents' reports, and seven types more: the session, messages, costs in three
ways, the result, a context that is full. Reports that make sense for tasks alone are refused.
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
from interlock.workers.supervision.reports import LINE_BYTES_MAX, Rejected, parse_line
from interlock.workers.supervision.session_reports import (
    ContextExceeded,
    CostsAdded,
    CostsFinal,
    CostsSet,
    MessageSaid,
    ResultReached,
    Said,
    SessionOpened,
    Speech,
    Tokens,
    said_by_agent,
)
from interlock.workers.supervision.streams.claude_session import ClaudeSpeech


class PlainSpeech:
    """Understands nothing: whatever a line looks like, no one promised that it is a report."""

    line_bytes_max = LINE_BYTES_MAX
    says_result = False

    def feed(self, line: bytes) -> Sequence[Said | Rejected]:
        """Return nothing."""
        del line
        return ()


class InterlockSpeech:
    """Our own JSON lines, one report each; it keeps nothing from line to line."""

    line_bytes_max = LINE_BYTES_MAX
    says_result = True

    def feed(self, line: bytes) -> Sequence[Said | Rejected]:
        """Return the line's report, or why it is none; a blank line says nothing."""
        return (read_said(line),) if line.strip() else ()


# A new way to speak goes here.
SPEECHES: Mapping[str, Callable[[], Speech]] = {
    "plain": PlainSpeech,
    "interlock": InterlockSpeech,
    "claude": ClaudeSpeech,
}


def read_said(line: bytes) -> Said | Rejected:
    """Read one line. Never raises: whatever is wrong with it is told in one sentence."""
    try:
        message = read_object(line, bytes_max=LINE_BYTES_MAX)
        check_plain(message)
        name = _kind(message)
        if name in _OF_AGENTS:
            return said_by_agent(parse_line(line))
        make, fields = _SHAPES[name]
        given = {field: value for field, value in message.items() if field != "type"}
        return make(**read_fields(given, fields, of=name))
    except LineError as error:
        return Rejected(str(error))


def _kind(message: Mapping[str, Any]) -> str:
    if "type" not in message:
        raise LineError("the line has no type")
    name = message["type"]
    known = (*_SHAPES, *_OF_AGENTS)
    if not isinstance(name, str) or name not in known:
        told = ", ".join(known)
        raise LineError(f"{shown(name)} is no type of report; known to codons: {told}")
    return name


def _tokens(value: object, where: str) -> Tokens:
    if not isinstance(value, dict):
        raise LineError(f"{where} must be an object, it is {shown(value)}")
    return Tokens(**read_fields(value, _TOKENS, of=where))


def _size(value: object, where: str) -> int:
    return read_number(value, where, least=1)


def _added(
    *,
    cost_micro: int | None = None,
    context_used: int | None = None,
    context_size: int | None = None,
    **tokens: int,
) -> CostsAdded:
    if not tokens and cost_micro is None and context_used is None and context_size is None:
        raise LineError("usage says nothing; give tokens, context or cost")
    kinds = {_IN_USAGE.get(name, name): number for name, number in tokens.items()}
    return CostsAdded(cost_micro or 0, Tokens(**kinds), context_used, context_size)


# Two kinds have the names in a usage that agents' reports gave them.
_IN_USAGE = {"tokens_in": "input_tokens", "tokens_out": "output_tokens"}
_OF_AGENTS = (
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
_SHAPES: Mapping[str, tuple[Callable[..., Said], Fields]] = {
    "session":          (SessionOpened,   {"id": read_name}),
    "message":          (MessageSaid,     {"text": read_remark, "continues?": read_flag}),
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
