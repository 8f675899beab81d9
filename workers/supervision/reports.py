"""What an agent says of its own work: JSON lines, read into reports; it never acts on one."""

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
class Ready:
    """The agent is up and takes its task."""


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A tool call began. Several may run at once; the id tells them apart."""

    tool: str
    id: str


@dataclass(frozen=True, slots=True)
class ToolCompleted:
    """A tool call ended, well or not."""

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
    """The agent says that its work is done."""

    summary: str


@dataclass(frozen=True, slots=True)
class Failed:
    """The agent says that it cannot go on. No reason means that it named none.

    `abort` is what broke it, where it was not the task; `retry_after_s` is its provider's wish.
    """

    error: str
    reason: TransitionReason | None = None
    abort: AbortReason | None = None
    retry_after_s: int | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """The agent got somewhere."""

    message: str
    percent: int | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """What was used since the last such report, and how full the context window is now.

    Tokens and cost (micro-dollars) add up over the reports; the window's figures are levels. None
    is what the agent did not say.
    """

    tokens_in: int | None = None
    tokens_out: int | None = None
    context_used: int | None = None
    context_size: int | None = None
    cost_micro: int | None = None

    @property
    def deltas(self) -> dict[str, int]:
        """What is added to a record's counters."""
        said = {
            "tokens_in": self.tokens_in,
            "tokens_out": self.tokens_out,
            "spent": self.cost_micro,
        }
        return {name: number for name, number in said.items() if number}


@dataclass(frozen=True, slots=True)
class AbortRaised:
    """A tool call was aborted, or the agent's siblings should be; its own session goes on."""

    scope: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ChildCancelled:
    """A part of the task is no longer wanted: its whole id."""

    child: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class MailSent:
    """A message to another agent, by its name."""

    to: str
    text: str
    kind: str = ""
    urgent: bool = False
    thread: str = ""
    reply_to: str = ""


@dataclass(frozen=True, slots=True)
class Blocked:
    """The work waits for another task or for what the text says; one of the two is there."""

    task: str | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Subtask:
    """One part of a task that falls apart."""

    title: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Split:
    """The task falls apart into these."""

    subtasks: tuple[Subtask, ...]


@dataclass(frozen=True, slots=True)
class Rejected:
    """A line that is no report; the reason is one sentence."""

    reason: str


Report: TypeAlias = (
    Ready
    | ToolStarted
    | ToolCompleted
    | CompactNeeded
    | Compacted
    | VerifyRequested
    | Failed
    | Progress
    | Usage
    | AbortRaised
    | ChildCancelled
    | MailSent
    | Blocked
    | Split
)
Told: TypeAlias = Sequence[Report | Rejected]


class AgentStream(Protocol):
    """One agent's output, read line by line from its start. Lines may be `line_bytes_max` long."""

    line_bytes_max: int

    def feed(self, line: bytes) -> Told:
        """Return what the next line tells. Never raises."""


def parse_line(line: bytes) -> Report | Rejected:
    """Read one line. Never raises: whatever is wrong with it is told in one sentence."""
    try:
        message = read_object(line, bytes_max=LINE_BYTES_MAX)
        check_plain(message)
        return _report(message)
    except LineError as error:
        return Rejected(str(error))


def _report(message: dict[str, Any]) -> Report:
    if "type" not in message:
        raise LineError("the line has no type")
    name = message["type"]
    if not isinstance(name, str) or name not in _SHAPES:
        raise LineError(f"{shown(name)} is no type of report; known: {', '.join(_SHAPES)}")
    make, fields = _SHAPES[name]
    said = {field: value for field, value in message.items() if field != "type"}
    return make(**read_fields(said, fields, object_name=name))


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


class _Scope(StrEnum):
    TOOL = auto()
    SIBLING = auto()


def _task(value: object, where: str) -> str:
    try:
        return record_id(read_text(value, where))
    except InvalidIdError as error:
        raise LineError(f"{where}: {error}") from error


def _subtasks(value: object, where: str) -> tuple[Subtask, ...]:
    if not isinstance(value, list) or not 1 <= len(value) <= SUBTASKS_MAX:
        raise LineError(f"{where} must be a list of 1 to {SUBTASKS_MAX}, it is {shown(value)}")
    found = []
    for index, one in enumerate(value):
        if not isinstance(one, dict):
            raise LineError(f"{where}[{index}] must be an object, it is {shown(one)}")
        found.append(Subtask(**read_fields(one, _SUBTASK, object_name=f"{where}[{index}]")))
    return tuple(found)


def _usage(**said: int) -> Usage:
    if not said:
        raise LineError("usage says nothing; give tokens, context or cost")
    return Usage(**said)


def _blocked(**on: str) -> Blocked:
    if len(on) != 1:
        raise LineError("blocked needs either 'task' or 'text'")
    return Blocked(**on)


_SUBTASK: Fields = {"title": read_name, "text?": read_remark}

# A field with a question mark may be left out.
# fmt: off
_SHAPES: Mapping[str, tuple[Callable[..., Report], Fields]] = {
    "ready":            (Ready,           {}),
    "tool_started":     (ToolStarted,     {"tool": read_name, "id": read_name}),
    "tool_completed":   (ToolCompleted,   {"tool": read_name, "id": read_name,
                                           "success": read_flag}),
    "compact_needed":   (CompactNeeded,   {}),
    "compacted":        (Compacted,       {}),
    "verify_requested": (VerifyRequested, {"summary": read_remark}),
    "failed":           (Failed,          {"error": read_text, "reason?": _one_of(TransitionReason),
                                           "abort?": _one_of(AbortReason),
                                           "retry_after_s?": _wait_s}),
    "abort":            (AbortRaised,     {"scope": _one_of(_Scope), "reason?": read_remark}),
    "cancel_child":     (ChildCancelled,  {"child": _task, "reason?": read_remark}),
    "progress":         (Progress,        {"message": read_text, "percent?": _percent}),
    "usage":            (_usage,          {"tokens_in?": read_number, "tokens_out?": read_number,
                                           "context_used?": read_number, "context_size?": _size,
                                           "cost_micro?": read_number}),
    "mail":             (MailSent,        {"to": read_name, "text": read_text, "kind?": read_name,
                                           "urgent?": read_flag, "thread?": read_name,
                                           "reply_to?": read_name}),
    "blocked":          (_blocked,        {"task?": _task, "text?": read_text}),
    "split":            (Split,           {"subtasks": _subtasks}),
}
# fmt: on
