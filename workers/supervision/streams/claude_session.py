"""A codon's process that is Claude Code with `--output-format stream-json --verbose`.

What its agent does is read by the reader of that stream which all machines have; added here are the
session, whole messages, and costs by kinds of tokens. It never prices a token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from math import isfinite
from typing import Any

from interlock.workers.specs.json_line import LineError, read_name, read_number, read_object, shown
from interlock.workers.supervision.reports import Progress, Rejected, Usage
from interlock.workers.supervision.session_reports import (
    CostsAdded,
    CostsFinal,
    MessageSaid,
    Said,
    SessionOpened,
    Tokens,
    plain_text,
    said_by_agent,
)
from interlock.workers.supervision.streams.claude import LINE_BYTES_MAX, ClaudeStream

MESSAGES_MAX = 1_000
_COST_USD_MAX = 1_000_000_000
# The program writes notices of its own as messages of this model.
_NO_MODEL = "<synthetic>"
# By the order of the kinds in Tokens: of one request, and of a model in the totals.
_OF_REQUEST = (
    "input_tokens",
    "output_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
)
_OF_MODEL = (
    "inputTokens",
    "outputTokens",
    "cacheCreationInputTokens",
    "cacheReadInputTokens",
)
_KINDS = tuple(kind.name for kind in fields(Tokens))


class ClaudeSpeech:
    """Reads the output of one process."""

    line_bytes_max = LINE_BYTES_MAX
    says_result = True

    def __init__(self) -> None:
        self._stream = ClaudeStream()
        self._session: str | None = None
        self._message: object = None
        self._counted: dict[object, Tokens] = {}

    def feed(self, line: bytes) -> Sequence[Said | Rejected]:
        """Return what the line says, and what of it could not be read; each fault once."""
        told: list[Said | Rejected] = [*self._own(line)] if line.strip() else []
        for report in self._stream.feed(line):
            # Both are told here, by kinds of tokens and in full.
            if isinstance(report, Usage | Progress):
                continue
            said = said_by_agent(report)
            if not isinstance(said, Rejected) or said not in told:
                told.append(said)
        return tuple(told)

    def _own(self, line: bytes) -> Iterator[Said | Rejected]:
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
            yield Rejected(str(error))

    def _opened(self, message: Mapping[str, Any]) -> Iterator[SessionOpened]:
        session = read_name(message.get("session_id"), "session_id")
        # The program says it again at each turn of the conversation.
        if session != self._session:
            self._session = session
            yield SessionOpened(plain_text(session))

    def _assistant(self, message: Mapping[str, Any]) -> Iterator[MessageSaid | CostsAdded]:
        inner = message.get("message")
        if not isinstance(inner, Mapping) or inner.get("model") == _NO_MODEL:
            return
        main = message.get("parent_tool_use_id") is None
        if main:
            yield from self._said(inner)
        usage = inner.get("usage")
        if isinstance(usage, Mapping):
            yield from self._added(inner.get("id"), _read(usage, _OF_REQUEST), main=main)

    def _said(self, inner: Mapping[str, Any]) -> Iterator[MessageSaid]:
        """Tell a message once; the lines that follow with its id are further parts of it."""
        content = inner.get("content")
        blocks = content if isinstance(content, list) else []
        texts = [
            str(block.get("text", ""))
            for block in blocks
            if isinstance(block, Mapping) and block.get("type") == "text"
        ]
        of = inner.get("id")
        continues = of is not None and of == self._message
        self._message = of
        if texts or not continues:
            yield MessageSaid(plain_text("\n".join(texts)), continues=continues)

    def _added(self, of: object, now: Tokens, *, main: bool) -> Iterator[CostsAdded]:
        """Tell what a line adds: all with one message's id repeat the usage of one request."""
        used = now.input_tokens + now.cache_creation_tokens + now.cache_read_tokens
        key = of if isinstance(of, str) else None
        before = self._counted.pop(key, Tokens())
        most = _each(max, now, before)
        self._counted[key] = most
        if len(self._counted) > MESSAGES_MAX:
            del self._counted[next(iter(self._counted))]
        if most != before:
            added = _each(int.__sub__, most, before)
            yield CostsAdded(tokens=added, context_used=used if main else None)


def _final(result: Mapping[str, Any]) -> CostsFinal:
    """Return what the whole process has used, of all its models."""
    total_usd = result.get("total_cost_usd")
    if isinstance(total_usd, bool) or not isinstance(total_usd, int | float):
        raise LineError(f"total_cost_usd must be a number, it is {shown(total_usd)}")
    if not isfinite(total_usd) or not 0 <= total_usd <= _COST_USD_MAX:
        raise LineError(f"total_cost_usd cannot be {shown(total_usd)}")
    return CostsFinal(round(total_usd * 1_000_000), _totals(result))


def _totals(result: Mapping[str, Any]) -> Tokens:
    models, usage = result.get("modelUsage"), result.get("usage")
    if isinstance(models, Mapping) and models:
        total = Tokens()
        for one in models.values():
            if isinstance(one, Mapping):
                total = total.plus(_read(one, _OF_MODEL))
        return total
    return _read(usage, _OF_REQUEST) if isinstance(usage, Mapping) else Tokens()


def _read(usage: Mapping[str, Any], names: tuple[str, ...]) -> Tokens:
    said = {kind: usage.get(name) for kind, name in zip(_KINDS, names, strict=True)}
    where = dict(zip(_KINDS, names, strict=True))
    return Tokens(
        **{kind: read_number(n, where[kind]) for kind, n in said.items() if n is not None}
    )


def _each(do: Callable[[int, int], int], left: Tokens, right: Tokens) -> Tokens:
    return Tokens(*(do(getattr(left, kind), getattr(right, kind)) for kind in _KINDS))
