"""Reads a session of Claude Code with `--output-format stream-json --verbose`.

ClaudeStream reads what its agent does. This adds the session, whole messages, and costs by kinds of
tokens, as the program gives them; no price of a token is known here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from math import isfinite
from typing import Any

from interlock.workers.specs.json_line import LineError, read_name, read_number, read_object, shown
from interlock.workers.supervision.reports import Progress, RejectedLine, TokensUsed
from interlock.workers.supervision.session_reports import (
    CostsAdded,
    CostsFinal,
    MessageWritten,
    SessionOpened,
    SessionReport,
    TokenCounts,
    as_session_report,
    plain_text,
)
from interlock.workers.supervision.streams.claude import LINE_BYTES_MAX, ClaudeStream

MESSAGES_MAX = 1_000
_COST_USD_MAX = 1_000_000_000
# The program gives this as the model of its own notices.
_NO_MODEL = "<synthetic>"
# The fields in the order of TokenCounts: of one request, and of a model in the totals.
_REQUEST_FIELDS = (
    "input_tokens",
    "output_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
)
_MODEL_FIELDS = (
    "inputTokens",
    "outputTokens",
    "cacheCreationInputTokens",
    "cacheReadInputTokens",
)
_KINDS = tuple(kind.name for kind in fields(TokenCounts))


class ClaudeSessionStream:
    """Reads the output of one process of Claude Code."""

    line_bytes_max = LINE_BYTES_MAX
    reports_result = True

    def __init__(self) -> None:
        self._stream = ClaudeStream()
        self._session: str | None = None
        self._message: object = None
        self._counted: dict[object, TokenCounts] = {}

    def feed(self, line: bytes) -> Sequence[SessionReport | RejectedLine]:
        """Return the reports in a line, and each part that could not be read once."""
        reports: list[SessionReport | RejectedLine] = (
            [*self._session_reports(line)] if line.strip() else []
        )
        for report in self._stream.feed(line):
            # Costs and messages are reported here, with kinds of tokens and in full.
            if isinstance(report, TokensUsed | Progress):
                continue
            converted = as_session_report(report)
            if not isinstance(converted, RejectedLine) or converted not in reports:
                reports.append(converted)
        return tuple(reports)

    def _session_reports(self, line: bytes) -> Iterator[SessionReport | RejectedLine]:
        try:
            message = read_object(line, bytes_max=LINE_BYTES_MAX)
            match message.get("type"), message.get("subtype"):
                case "system", "init":
                    yield from self._opened(message)
                case "assistant", _:
                    yield from self._assistant(message)
                case "result", _:
                    yield _final(message)
        except LineError as error:
            yield RejectedLine(str(error))

    def _opened(self, message: Mapping[str, Any]) -> Iterator[SessionOpened]:
        session = read_name(message.get("session_id"), "session_id")
        # The program repeats it at each turn of the conversation.
        if session != self._session:
            self._session = session
            yield SessionOpened(plain_text(session))

    def _assistant(self, message: Mapping[str, Any]) -> Iterator[MessageWritten | CostsAdded]:
        inner = message.get("message")
        if not isinstance(inner, Mapping) or inner.get("model") == _NO_MODEL:
            return
        main = message.get("parent_tool_use_id") is None
        if main:
            yield from self._text(inner)
        usage = inner.get("usage")
        if isinstance(usage, Mapping):
            yield from self._added(inner.get("id"), _read(usage, _REQUEST_FIELDS), main=main)

    def _text(self, inner: Mapping[str, Any]) -> Iterator[MessageWritten]:
        """Report a message; further lines with the same id continue it."""
        content = inner.get("content")
        blocks = content if isinstance(content, list) else []
        texts = [
            str(block.get("text", ""))
            for block in blocks
            if isinstance(block, Mapping) and block.get("type") == "text"
        ]
        message_id = inner.get("id")
        continues = message_id is not None and message_id == self._message
        self._message = message_id
        if texts or not continues:
            yield MessageWritten(plain_text("\n".join(texts)), continues=continues)

    def _added(self, message_id: object, now: TokenCounts, *, main: bool) -> Iterator[CostsAdded]:
        """Report the costs that a line adds: lines with one message id repeat one usage."""
        used = now.input_tokens + now.cache_creation_tokens + now.cache_read_tokens
        key = message_id if isinstance(message_id, str) else None
        before = self._counted.pop(key, TokenCounts())
        highest = _each(max, now, before)
        self._counted[key] = highest
        if len(self._counted) > MESSAGES_MAX:
            del self._counted[next(iter(self._counted))]
        if highest != before:
            added = _each(int.__sub__, highest, before)
            yield CostsAdded(tokens=added, context_used=used if main else None)


def _final(result: Mapping[str, Any]) -> CostsFinal:
    """Return the costs of the whole process with all its models."""
    total_usd = result.get("total_cost_usd")
    if isinstance(total_usd, bool) or not isinstance(total_usd, int | float):
        raise LineError(f"total_cost_usd must be a number, it is {shown(total_usd)}")
    if not isfinite(total_usd) or not 0 <= total_usd <= _COST_USD_MAX:
        raise LineError(f"total_cost_usd cannot be {shown(total_usd)}")
    return CostsFinal(round(total_usd * 1_000_000), _totals(result))


def _totals(result: Mapping[str, Any]) -> TokenCounts:
    models, usage = result.get("modelUsage"), result.get("usage")
    if isinstance(models, Mapping) and models:
        total = TokenCounts()
        for model in models.values():
            if isinstance(model, Mapping):
                total = total.plus(_read(model, _MODEL_FIELDS))
        return total
    return _read(usage, _REQUEST_FIELDS) if isinstance(usage, Mapping) else TokenCounts()


def _read(usage: Mapping[str, Any], names: tuple[str, ...]) -> TokenCounts:
    where = dict(zip(_KINDS, names, strict=True))
    given = {kind: usage.get(name) for kind, name in where.items()}
    return TokenCounts(
        **{kind: read_number(n, where[kind]) for kind, n in given.items() if n is not None}
    )


def _each(
    operation: Callable[[int, int], int], left: TokenCounts, right: TokenCounts
) -> TokenCounts:
    return TokenCounts(*(operation(getattr(left, kind), getattr(right, kind)) for kind in _KINDS))
