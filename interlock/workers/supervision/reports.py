"""The reports of an agent's process on its work, and the protocol of the streams that read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from typing import Any, Protocol, TypeAlias

from interlock.kernel.reason import AbortReason, TransitionReason
from interlock.workers.specs.json_line import COUNT_MAX

OPEN_TOOLS_MAX = 1_000  # tool calls of an agent that may run at once


@dataclass(frozen=True, slots=True)
class AgentReady:
    """The agent has started and begins its work."""


@dataclass(frozen=True, slots=True)
class SessionOpened:
    """The agent works in the session of this id, which can be continued later."""

    id: str


@dataclass(frozen=True, slots=True)
class MessageWritten:
    """A message, or with `continues` a further part of the message before.

    `own` is false if a subagent or the agent's program wrote it, and not the agent itself.
    """

    text: str
    continues: bool = False
    own: bool = True


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
class WorkFinished:
    """The agent reports that its work is done."""

    summary: str


@dataclass(frozen=True, slots=True)
class AgentFailed:
    """The agent reports that it cannot go on, with or without a reason.

    `abort` is given if the agent was aborted and its work is not at fault. `retry_after_s` is the
    delay that the model's provider asks for. `final`: another try cannot help before a person acts.
    """

    error: str
    reason: TransitionReason | None = None
    abort: AbortReason | None = None
    retry_after_s: int | None = None
    final: bool = False


@dataclass(frozen=True, slots=True)
class Progress:
    """The agent reports a step forward."""

    message: str
    percent: int | None = None


@dataclass(frozen=True, slots=True)
class UsedTokens:
    """Numbers of tokens by the four kinds that providers charge for. A token has one kind."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_creation_tokens: int = 0
    cache_read_tokens: int = 0

    def plus(self, other: UsedTokens) -> UsedTokens:
        """Return the sum by kind; a sum stops growing at COUNT_MAX."""
        pairs = zip(astuple(self), astuple(other), strict=True)
        return UsedTokens(*(min(one + another, COUNT_MAX) for one, another in pairs))

    @property
    def all_input(self) -> int:
        """The number of tokens that a model read, with those that its provider kept in a cache."""
        return self.input_tokens + self.cache_creation_tokens + self.cache_read_tokens


@dataclass(frozen=True, slots=True)
class UsageAdded:
    """The cost (micro-dollars) and tokens that were used since the last report of usage.

    The figures of the context window are present values, and None where they are unknown.
    """

    cost_micro: int = 0
    tokens: UsedTokens = UsedTokens()
    context_used: int | None = None
    context_size: int | None = None

    def plus(self, other: UsageAdded) -> UsageAdded:
        """Return the sum of the costs and tokens; it stops growing at COUNT_MAX."""
        cost_micro = min(self.cost_micro + other.cost_micro, COUNT_MAX)
        return UsageAdded(cost_micro, self.tokens.plus(other.tokens))

    @property
    def deltas(self) -> dict[str, int]:
        """The numbers to add to a record's counters."""
        numbers = {
            "tokens_in": min(self.tokens.all_input, COUNT_MAX),
            "tokens_out": self.tokens.output_tokens,
            "spent": self.cost_micro,
        }
        return {name: number for name, number in numbers.items() if number}


@dataclass(frozen=True, slots=True)
class UsageTotal:
    """The cost and tokens of the whole process so far, or at its end if they are `final`.

    `cost_micro` is None if the cost is unknown. `added` is the part of the total that the same
    stream has not reported before, as far as the stream can tell.
    """

    cost_micro: int | None
    tokens: UsedTokens = UsedTokens()
    final: bool = False
    added: UsageAdded = UsageAdded()


@dataclass(frozen=True, slots=True)
class AbortRaised:
    """The agent aborted a tool call, or asks to abort its siblings; its own session goes on."""

    scope: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """The agent asks to cancel a child of its work; `child` is the child's whole id."""

    child: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class MailSent:
    """Mail to another agent, given by its name. With an `id` it is sent once, however repeated."""

    to: str
    text: str
    kind: str = ""
    urgent: bool = False
    thread: str = ""
    reply_to: str = ""
    id: str = ""


@dataclass(frozen=True, slots=True)
class AgentBlocked:
    """The work waits for another task, named as in its backlog, or for the thing in the text."""

    task: str | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Subtask:
    """One part of a piece of work that the agent splits.

    `signals` are the completion signals, each with `type` and `value`; `after` has the numbers,
    from 1, of the parts that have to be done before. An empty field has its default.
    """

    title: str
    text: str = ""
    scope: str = ""
    signals: tuple[Mapping[str, str], ...] = ()
    owned_files: tuple[str, ...] = ()
    after: tuple[int, ...] = ()

    def given(self) -> dict[str, Any]:
        """Return its fields that are not empty, as JSON has them."""
        given = {name: value for name, value in asdict(self).items() if value}
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in given.items()
        }


@dataclass(frozen=True, slots=True)
class SplitRequested:
    """The agent asks to split its work into these parts."""

    subtasks: tuple[Subtask, ...]


@dataclass(frozen=True, slots=True)
class RejectedLine:
    """A line, or a part of one, that cannot be read as a report. The reason is one sentence.

    With `ends` it was to report that the work ends without success: a process that goes on to exit
    with code 0 has not succeeded.
    """

    reason: str
    ends: bool = False


# fmt: off
Report: TypeAlias = (
    AgentReady | SessionOpened | MessageWritten | ToolStarted | ToolCompleted | CompactNeeded
    | Compacted | WorkFinished | AgentFailed | Progress | UsageAdded | UsageTotal | AbortRaised
    | CancelRequested | MailSent | AgentBlocked | SplitRequested | RejectedLine
)
# fmt: on


class ReportStream(Protocol):
    """Reads the output of one process line by line. A line may have up to `line_bytes_max` bytes.

    If a process cannot report a result (`reports_result` is false), its exit code says whether its
    work is done.
    """

    line_bytes_max: int
    reports_result: bool

    def feed(self, line: bytes) -> Sequence[Report]:
        """Return the reports in the next line. Never raises."""
