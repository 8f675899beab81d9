"""Reports of a process with a session: its messages, costs and result, and an agent's reports."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Protocol, TypeAlias

from interlock.kernel.reason import TransitionReason
from interlock.workers.specs.json_line import COUNT_MAX, TEXT_LENGTH_MAX
from interlock.workers.supervision.reports import (
    AgentFailed,
    AgentReady,
    Compacted,
    CompactNeeded,
    Progress,
    RejectedLine,
    Report,
    ToolCompleted,
    ToolStarted,
    VerifyRequested,
)

_ELLIPSIS = "..."
ERROR_LENGTH_READ = 16_000
CONTEXT_EXCEEDED = re.compile(
    r"\b(?:prompt|input|conversation|request) is too long"
    r"|\b(?:prompt|input)[-_ ]too[-_ ]long"
    r"|\bcontext[-_ ](?:length|window|limit)[-_ ]?(?:is |was |has been )?(?:exceeded|exhausted)"
    r"|\bexceed\w*\s(?:\S+\s){0,4}context[-_ ](?:length|window|limit|size)"
    r"|\bmaximum context length\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """Numbers of tokens by the four kinds that providers charge for. A token has one kind."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_creation_tokens: int = 0
    cache_read_tokens: int = 0

    def plus(self, other: TokenCounts) -> TokenCounts:
        """Return the sum by kind; a sum stops growing at COUNT_MAX."""
        kinds = (getattr(self, kind) + getattr(other, kind) for kind in KINDS)
        return TokenCounts(*(min(n, COUNT_MAX) for n in kinds))


KINDS = tuple(field.name for field in fields(TokenCounts))


@dataclass(frozen=True, slots=True)
class SessionOpened:
    """The agent works in the session of this id, which can be continued later."""

    id: str


@dataclass(frozen=True, slots=True)
class MessageWritten:
    """The agent wrote a message, or with `continues` a further part of the one before."""

    text: str
    continues: bool = False


@dataclass(frozen=True, slots=True)
class CostsAdded:
    """Costs since the last such report, and how full the context window is if that is known."""

    cost_micro: int = 0
    tokens: TokenCounts = TokenCounts()
    context_used: int | None = None
    context_size: int | None = None


@dataclass(frozen=True, slots=True)
class CostsSet:
    """The total costs of the process so far."""

    cost_micro: int
    tokens: TokenCounts = TokenCounts()


@dataclass(frozen=True, slots=True)
class CostsFinal:
    """The total costs of the process, as its provider gives them at the end."""

    cost_micro: int
    tokens: TokenCounts = TokenCounts()


@dataclass(frozen=True, slots=True)
class ResultReached:
    """The agent reports that its work is done."""

    text: str = ""


@dataclass(frozen=True, slots=True)
class ContextExceeded:
    """The conversation no longer fits into the model's context window."""

    detail: str = ""


# fmt: off
SessionReport: TypeAlias = (
    SessionOpened | MessageWritten | CostsAdded | CostsSet | CostsFinal | ResultReached
    | ContextExceeded | AgentReady | ToolStarted | ToolCompleted | CompactNeeded | Compacted
    | Progress | AgentFailed
)
# fmt: on


class SessionStream(Protocol):
    """Reads the output of one process line by line. A line may have up to `line_bytes_max` bytes.

    If a process cannot report a result (`reports_result` is false), its exit code says whether its
    work is done.
    """

    line_bytes_max: int
    reports_result: bool

    def feed(self, line: bytes) -> Sequence[SessionReport | RejectedLine]:
        """Return the reports in the next line. Never raises."""


def is_context_exceeded(text: str) -> bool:
    """Whether an error's text says that the conversation is longer than the model can read."""
    return CONTEXT_EXCEEDED.search(text[:ERROR_LENGTH_READ]) is not None


def as_session_report(report: Report | RejectedLine) -> SessionReport | RejectedLine:
    """Return an agent's report as a report of a session; some have no meaning there."""
    match report:
        case VerifyRequested(summary):
            return ResultReached(summary)
        case AgentFailed(error, reason) if (
            reason is TransitionReason.PROMPT_TOO_LONG or is_context_exceeded(error)
        ):
            return ContextExceeded(error)
        case (
            AgentReady()
            | ToolStarted()
            | ToolCompleted()
            | CompactNeeded()
            | Compacted()
            | Progress()
            | AgentFailed()
            | RejectedLine()
        ):
            return report
        case _:
            return RejectedLine(f"{type(report).__name__} is no report of a session")


def plain_text(text: str, *, length_max: int = TEXT_LENGTH_MAX) -> str:
    """Return the text as a report may hold it: cut, without NUL and without broken characters."""
    cut = text if len(text) <= length_max else text[: length_max - len(_ELLIPSIS)] + _ELLIPSIS
    return cut.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()
