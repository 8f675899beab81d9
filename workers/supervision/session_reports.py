"""What the process of a codon says of itself, as values; it never reads a line and never acts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Protocol, TypeAlias

from interlock.kernel.reason import TransitionReason
from interlock.workers.specs.json_line import COUNT_MAX, TEXT_LENGTH_MAX
from interlock.workers.supervision.reports import (
    Compacted,
    CompactNeeded,
    Failed,
    Progress,
    Ready,
    Rejected,
    Report,
    ToolCompleted,
    ToolStarted,
    VerifyRequested,
)

_CUT = "..."
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
class Tokens:
    """The four kinds that providers charge for. No token is of two kinds."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_creation_tokens: int = 0
    cache_read_tokens: int = 0

    def plus(self, other: Tokens) -> Tokens:
        """Return the sum, kind by kind; no sum grows beyond what can be counted."""
        kinds = (getattr(self, kind) + getattr(other, kind) for kind in KINDS)
        return Tokens(*(min(n, COUNT_MAX) for n in kinds))


KINDS = tuple(field.name for field in fields(Tokens))


@dataclass(frozen=True, slots=True)
class SessionOpened:
    """The session in which the agent works; it can be continued by this id."""

    id: str


@dataclass(frozen=True, slots=True)
class MessageSaid:
    """The agent wrote. `continues` says that it is a further part of the message told before."""

    text: str
    continues: bool = False


@dataclass(frozen=True, slots=True)
class CostsAdded:
    """What was used since the last such report; how full the context window is now, if it said."""

    cost_micro: int = 0
    tokens: Tokens = Tokens()
    context_used: int | None = None
    context_size: int | None = None


@dataclass(frozen=True, slots=True)
class CostsSet:
    """What the process has used so far, all in all."""

    cost_micro: int
    tokens: Tokens = Tokens()


@dataclass(frozen=True, slots=True)
class CostsFinal:
    """What the process has used, as its provider says in the end."""

    cost_micro: int
    tokens: Tokens = Tokens()


@dataclass(frozen=True, slots=True)
class ResultReached:
    """The agent says that its work is done."""

    text: str = ""


@dataclass(frozen=True, slots=True)
class ContextExceeded:
    """The conversation no longer fits into the model's context window."""

    detail: str = ""


# fmt: off
Said: TypeAlias = (
    SessionOpened | MessageSaid | CostsAdded | CostsSet | CostsFinal | ResultReached
    | ContextExceeded | Ready | ToolStarted | ToolCompleted | CompactNeeded | Compacted
    | Progress | Failed
)
# fmt: on


class Speech(Protocol):
    """One process's output, read line by line from its start. Lines may be `line_bytes_max` long.

    Where it cannot say that work is done (`says_result` is false), its exit code alone does.
    """

    line_bytes_max: int
    says_result: bool

    def feed(self, line: bytes) -> Sequence[Said | Rejected]:
        """Return what the next line says. Never raises."""


def says_context_exceeded(text: str) -> bool:
    """Tell whether an error's text says that the conversation is longer than the model reads."""
    return CONTEXT_EXCEEDED.search(text[:ERROR_LENGTH_READ]) is not None


def said_by_agent(report: Report | Rejected) -> Said | Rejected:
    """Return an agent's report in the words of codons."""
    match report:
        case VerifyRequested(summary):
            return ResultReached(summary)
        case Failed(error, reason) if (
            reason is TransitionReason.PROMPT_TOO_LONG or says_context_exceeded(error)
        ):
            return ContextExceeded(error)
        case (
            Ready()
            | ToolStarted()
            | ToolCompleted()
            | CompactNeeded()
            | Compacted()
            | Progress()
            | Failed()
            | Rejected()
        ):
            return report
        case _:
            return Rejected(f"a codon cannot say {type(report).__name__}; only a task's agent can")


def plain_text(text: str, *, length_max: int = TEXT_LENGTH_MAX) -> str:
    """Return the text as reports take it: cut to a length, no NUL, no half of a character."""
    kept = text if len(text) <= length_max else text[: length_max - len(_CUT)] + _CUT
    return kept.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()
