"""Reads our own JSON lines, one report each. A line has a type, and the fields of that type.

A supervisor accepts only the types that have a meaning for its process: the table at the end of
this module says which. A line of another type is rejected with a sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum, auto
from functools import partial
from typing import Any, TypeVar

from interlock.kernel.errors import InvalidIdError
from interlock.kernel.reason import AbortReason, TransitionReason
from interlock.kernel.record import record_id
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
    read_text,
    shown,
)
from interlock.workers.supervision.reports import (
    AbortRaised,
    AgentBlocked,
    AgentFailed,
    AgentReady,
    CancelRequested,
    Compacted,
    CompactNeeded,
    MailSent,
    MessageWritten,
    Progress,
    RejectedLine,
    Report,
    SessionOpened,
    SplitRequested,
    Subtask,
    ToolCompleted,
    ToolStarted,
    UsageAdded,
    UsageTotal,
    UsedTokens,
    WorkFinished,
)

LINE_BYTES_MAX = 64 * 1024
# Of one line, which has a limit of its bytes; a person or a program may split a task into more.
LINE_SUBTASKS_MAX = 50
ITEMS_MAX = 100  # in a list of a subtask
WAIT_S_MAX = 86_400
Item = TypeVar("Item")


class AbortReach(StrEnum):
    """Whether the agent aborts a tool call or its siblings."""

    TOOL = auto()
    SIBLING = auto()


class ReportKinds(StrEnum):
    """Which types of lines a supervisor accepts.

    AGENT has those about work that a record describes: its splitting, its blocking, mail. SESSION
    has those of a process whose session, messages and costs are recorded.
    """

    AGENT = auto()
    SESSION = auto()


class InterlockStream:
    """Reads each line by itself."""

    line_bytes_max = LINE_BYTES_MAX
    reports_result = True

    def __init__(self, kinds: ReportKinds) -> None:
        self._kinds = kinds

    def feed(self, line: bytes) -> Sequence[Report | RejectedLine]:
        """Return the line's report, or the reason why it has none; nothing for a blank line."""
        return (parse_line(line, self._kinds),) if line.strip() else ()


def parse_line(line: bytes, kinds: ReportKinds) -> Report | RejectedLine:
    """Read one line. Never raises: a faulty line becomes a RejectedLine with one sentence."""
    message: dict[str, Any] = {}
    try:
        message = read_object(line, bytes_max=LINE_BYTES_MAX)
        check_plain(message)
        return _report(message, kinds)
    except LineError as error:
        return RejectedLine(str(error), ends=message.get("type") in _ENDS_WITHOUT_SUCCESS)


def _report(message: dict[str, Any], kinds: ReportKinds) -> Report:
    if "type" not in message:
        raise LineError("the line has no type")
    name = message["type"]
    known = [known for known, (accepted, _, _) in _LINES.items() if kinds in accepted]
    if not isinstance(name, str) or name not in known:
        raise LineError(f"{shown(name)} is no type of report; known: {', '.join(known)}")
    _, make, fields = _LINES[name]
    given = {field: value for field, value in message.items() if field != "type"}
    return make(**read_fields(given, fields, object_name=name))


def _percent(value: object, where: str) -> int:
    return read_number(value, where, maximum=100)


def _size(value: object, where: str) -> int:
    return read_number(value, where, minimum=1)


def _one_of(known: type[StrEnum]) -> Callable[[object, str], StrEnum | None]:
    def read(value: object, where: str) -> StrEnum | None:
        if value is None:
            return None
        if not isinstance(value, str) or value not in set(known):
            raise LineError(f"{where} {shown(value)} is unknown; known: {', '.join(known)}")
        return known(value)

    return read


def _part_number(value: object, where: str) -> int:
    return read_number(value, where, minimum=1, maximum=LINE_SUBTASKS_MAX)


def _wait_s(value: object, where: str) -> int:
    return read_number(value, where, maximum=WAIT_S_MAX)


def _record(value: object, where: str) -> str:
    try:
        return record_id(read_text(value, where))
    except InvalidIdError as error:
        raise LineError(f"{where}: {error}") from error


def _list_of(
    read: Callable[[object, str], Item], maximum: int, *, minimum: int = 0
) -> Callable[[object, str], tuple[Item, ...]]:
    def read_list(value: object, where: str) -> tuple[Item, ...]:
        if not isinstance(value, list) or not minimum <= len(value) <= maximum:
            size = f"{minimum} to {maximum}"
            raise LineError(f"{where} must be a list of {size}, it is {shown(value)}")
        return tuple(read(item, f"{where}[{index}]") for index, item in enumerate(value))

    return read_list


def _object(fields: Fields, make: Callable[..., Item]) -> Callable[[object, str], Item]:
    def read(value: object, where: str) -> Item:
        if not isinstance(value, dict):
            raise LineError(f"{where} must be an object, it is {shown(value)}")
        return make(**read_fields(value, fields, object_name=where))

    return read


def _usage_added(
    *,
    cost_micro: int | None = None,
    context_used: int | None = None,
    context_size: int | None = None,
    **tokens: int,
) -> UsageAdded:
    if not tokens and cost_micro is None and context_used is None and context_size is None:
        raise LineError("usage has no number; give tokens, context or cost")
    kinds = {_USAGE_NAMES.get(name, name): number for name, number in tokens.items()}
    return UsageAdded(cost_micro or 0, UsedTokens(**kinds), context_used, context_size)


def _context_exceeded(detail: str = "") -> AgentFailed:
    return AgentFailed(detail, TransitionReason.PROMPT_TOO_LONG)


def _result(text: str = "") -> WorkFinished:
    return WorkFinished(text)


def _blocked(**cause: str) -> AgentBlocked:
    if len(cause) != 1:
        raise LineError("blocked needs either 'task' or 'text'")
    return AgentBlocked(**cause)


_SIGNAL: Fields = {"type": read_name, "value": read_text}
_SUBTASK: Fields = {
    "title": read_name,
    "text?": read_remark,
    "scope?": read_name,
    "signals?": _list_of(_object(_SIGNAL, dict), ITEMS_MAX),
    "owned_files?": _list_of(read_text, ITEMS_MAX),
    "after?": _list_of(_part_number, ITEMS_MAX),
}
_subtasks = _list_of(_object(_SUBTASK, Subtask), LINE_SUBTASKS_MAX, minimum=1)
# In a usage line two kinds of tokens have other names than in a line of total costs.
_USAGE_NAMES = {"tokens_in": "input_tokens", "tokens_out": "output_tokens"}
_TOKENS: Fields = {
    "input_tokens?": read_number,
    "output_tokens?": read_number,
    "cache_creation_tokens?": read_number,
    "cache_read_tokens?": read_number,
}
_FINAL_TOTAL = partial(UsageTotal, final=True)
_COSTS: Fields = {"cost_micro": read_number, "tokens?": _object(_TOKENS, UsedTokens)}

_ENDS_WITHOUT_SUCCESS = ("failed", "blocked", "split")
_AGENT, _SESSION, _BOTH = (ReportKinds.AGENT,), (ReportKinds.SESSION,), tuple(ReportKinds)
# The types of lines: where they are accepted, the report that they become, and their fields. A
# field with a question mark may be left out.
# fmt: off
_LINES: Mapping[str, tuple[tuple[ReportKinds, ...], Callable[..., Report], Fields]] = {
    "session":          (_SESSION, SessionOpened,     {"id": read_name}),
    "message":          (_SESSION, MessageWritten,    {"text": read_remark,
                                                       "continues?": read_flag}),
    "costs":            (_SESSION, UsageTotal,        _COSTS),
    "final_costs":      (_SESSION, _FINAL_TOTAL,      _COSTS),
    "result":           (_SESSION, _result,           {"text?": read_remark}),
    "context_exceeded": (_SESSION, _context_exceeded, {"detail?": read_remark}),
    "ready":            (_BOTH,    AgentReady,        {}),
    "tool_started":     (_BOTH,    ToolStarted,       {"tool": read_name, "id": read_name}),
    "tool_completed":   (_BOTH,    ToolCompleted,     {"tool": read_name, "id": read_name,
                                                       "success": read_flag}),
    "compact_needed":   (_BOTH,    CompactNeeded,     {}),
    "compacted":        (_BOTH,    Compacted,         {}),
    "verify_requested": (_BOTH,    WorkFinished,      {"summary": read_remark}),
    "failed":           (_BOTH,    AgentFailed,       {"error": read_text,
                                                       "reason?": _one_of(TransitionReason),
                                                       "abort?": _one_of(AbortReason),
                                                       "retry_after_s?": _wait_s}),
    "abort":            (_AGENT,   AbortRaised,       {"scope": _one_of(AbortReach),
                                                       "reason?": read_remark}),
    "cancel_child":     (_AGENT,   CancelRequested,   {"child": _record, "reason?": read_remark}),
    "progress":         (_BOTH,    Progress,          {"message": read_text, "percent?": _percent}),
    "usage":            (_BOTH,    _usage_added,      {"tokens_in?": read_number,
                                                       "tokens_out?": read_number,
                                                       "cache_creation_tokens?": read_number,
                                                       "cache_read_tokens?": read_number,
                                                       "context_used?": read_number,
                                                       "context_size?": _size,
                                                       "cost_micro?": read_number}),
    "mail":             (_AGENT,   MailSent,          {"to": read_name, "text": read_text,
                                                       "kind?": read_name, "urgent?": read_flag,
                                                       "thread?": read_name,
                                                       "reply_to?": read_name}),
    "blocked":          (_AGENT,   _blocked,          {"task?": _record, "text?": read_text}),
    "split":            (_AGENT,   SplitRequested,    {"subtasks": _subtasks}),
}
# fmt: on
