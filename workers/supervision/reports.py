"""Reads the JSON lines in which an agent's process reports its work."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum, auto
from typing import Any, Protocol, TypeAlias

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

LINE_BYTES_MAX = 64 * 1024
SUBTASKS_MAX = 50
WAIT_S_MAX = 86_400


@dataclass(frozen=True, slots=True)
class AgentReady:
    """The agent has started and begins its work."""


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A tool call began. Several may run at once, so each has an id."""

    tool: str
    id: str


@dataclass(frozen=True, slots=True)
class ToolCompleted:
    """A tool call ended, with success or without."""

    tool: str
    id: str
    success: bool


@dataclass(frozen=True, slots=True)
class CompactNeeded:
    """The context window is near its limit and is being summarized."""


@dataclass(frozen=True, slots=True)
class Compacted:
    """The context window was summarized."""


@dataclass(frozen=True, slots=True)
class VerifyRequested:
    """The agent reports that its work is done and can be verified."""

    summary: str


@dataclass(frozen=True, slots=True)
class AgentFailed:
    """The agent reports that it cannot go on, with or without a reason.

    `abort` is given if the agent was aborted and its work is not at fault. `retry_after_s` is the
    wait that the model's provider asks for.
    """

    error: str
    reason: TransitionReason | None = None
    abort: AbortReason | None = None
    retry_after_s: int | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """The agent reports a step forward."""

    message: str
    percent: int | None = None


@dataclass(frozen=True, slots=True)
class TokensUsed:
    """Tokens and cost used since the last such report, and how full the context window is now.

    Tokens and cost (micro-dollars) add up over the reports; the figures of the context window are
    present values. None means that the agent did not report the figure.
    """

    tokens_in: int | None = None
    tokens_out: int | None = None
    context_used: int | None = None
    context_size: int | None = None
    cost_micro: int | None = None

    @property
    def deltas(self) -> dict[str, int]:
        """The numbers to add to a record's counters."""
        numbers = {
            "tokens_in": self.tokens_in,
            "tokens_out": self.tokens_out,
            "spent": self.cost_micro,
        }
        return {name: number for name, number in numbers.items() if number}


@dataclass(frozen=True, slots=True)
class AbortRaised:
    """A tool call was aborted, or the agent's siblings should be; its own session goes on."""

    scope: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """The agent asks to cancel a child of its work; `child` is the child's whole id."""

    child: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class MailSent:
    """Mail to another agent, given by its name."""

    to: str
    text: str
    kind: str = ""
    urgent: bool = False
    thread: str = ""
    reply_to: str = ""


@dataclass(frozen=True, slots=True)
class AgentBlocked:
    """The work waits for another record, or for the thing that the text names."""

    task: str | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Subtask:
    """One part of a piece of work that the agent splits."""

    title: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class SplitRequested:
    """The agent asks to split its work into these parts."""

    subtasks: tuple[Subtask, ...]


@dataclass(frozen=True, slots=True)
class RejectedLine:
    """A line that is not a report; the reason is one sentence."""

    reason: str


Report: TypeAlias = (
    AgentReady
    | ToolStarted
    | ToolCompleted
    | CompactNeeded
    | Compacted
    | VerifyRequested
    | AgentFailed
    | Progress
    | TokensUsed
    | AbortRaised
    | CancelRequested
    | MailSent
    | AgentBlocked
    | SplitRequested
)
LineReports: TypeAlias = Sequence[Report | RejectedLine]


class AgentStream(Protocol):
    """Reads the output of one agent line by line. A line may have up to `line_bytes_max` bytes."""

    line_bytes_max: int

    def feed(self, line: bytes) -> LineReports:
        """Return the reports in the next line. Never raises."""


def parse_line(line: bytes) -> Report | RejectedLine:
    """Read one line. Never raises: a faulty line becomes a RejectedLine with one sentence."""
    try:
        message = read_object(line, bytes_max=LINE_BYTES_MAX)
        check_plain(message)
        return _report(message)
    except LineError as error:
        return RejectedLine(str(error))


def _report(message: dict[str, Any]) -> Report:
    if "type" not in message:
        raise LineError("the line has no type")
    name = message["type"]
    if not isinstance(name, str) or name not in _SHAPES:
        raise LineError(f"{shown(name)} is no type of report; known: {', '.join(_SHAPES)}")
    make, fields = _SHAPES[name]
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


def _wait_s(value: object, where: str) -> int:
    return read_number(value, where, maximum=WAIT_S_MAX)


class AbortScope(StrEnum):
    """Whether the agent aborts a tool call or its siblings."""

    TOOL = auto()
    SIBLING = auto()


def _record(value: object, where: str) -> str:
    try:
        return record_id(read_text(value, where))
    except InvalidIdError as error:
        raise LineError(f"{where}: {error}") from error


def _subtasks(value: object, where: str) -> tuple[Subtask, ...]:
    if not isinstance(value, list) or not 1 <= len(value) <= SUBTASKS_MAX:
        raise LineError(f"{where} must be a list of 1 to {SUBTASKS_MAX}, it is {shown(value)}")
    found = []
    for index, item in enumerate(value):
        if not isinstance(item, dict):
            raise LineError(f"{where}[{index}] must be an object, it is {shown(item)}")
        found.append(Subtask(**read_fields(item, _SUBTASK, object_name=f"{where}[{index}]")))
    return tuple(found)


def _usage(**numbers: int) -> TokensUsed:
    if not numbers:
        raise LineError("usage has no number; give tokens, context or cost")
    return TokensUsed(**numbers)


def _blocked(**cause: str) -> AgentBlocked:
    if len(cause) != 1:
        raise LineError("blocked needs either 'task' or 'text'")
    return AgentBlocked(**cause)


_SUBTASK: Fields = {"title": read_name, "text?": read_remark}

# A field with a question mark may be left out.
# fmt: off
_SHAPES: Mapping[str, tuple[Callable[..., Report], Fields]] = {
    "ready":            (AgentReady,      {}),
    "tool_started":     (ToolStarted,     {"tool": read_name, "id": read_name}),
    "tool_completed":   (ToolCompleted,   {"tool": read_name, "id": read_name,
                                           "success": read_flag}),
    "compact_needed":   (CompactNeeded,   {}),
    "compacted":        (Compacted,       {}),
    "verify_requested": (VerifyRequested, {"summary": read_remark}),
    "failed":           (AgentFailed,     {"error": read_text, "reason?": _one_of(TransitionReason),
                                           "abort?": _one_of(AbortReason),
                                           "retry_after_s?": _wait_s}),
    "abort":            (AbortRaised,     {"scope": _one_of(AbortScope), "reason?": read_remark}),
    "cancel_child":     (CancelRequested, {"child": _record, "reason?": read_remark}),
    "progress":         (Progress,        {"message": read_text, "percent?": _percent}),
    "usage":            (_usage,          {"tokens_in?": read_number, "tokens_out?": read_number,
                                           "context_used?": read_number, "context_size?": _size,
                                           "cost_micro?": read_number}),
    "mail":             (MailSent,        {"to": read_name, "text": read_text, "kind?": read_name,
                                           "urgent?": read_flag, "thread?": read_name,
                                           "reply_to?": read_name}),
    "blocked":          (_blocked,        {"task?": _record, "text?": read_text}),
    "split":            (SplitRequested,  {"subtasks": _subtasks}),
}
# fmt: on
