"""The payloads of a codon: for its creation, and for its triggers. Money is in micro-dollars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NotRequired, TypedDict

from pydantic import Field

from interlock import Shape
from interlock.systems.runs.machines import limits
from interlock.systems.runs.machines.limits import SENTINELS_MAX
from interlock.systems.runs.machines.values import (
    BudgetExceeded,
    CheckpointType,
    Count,
    Detail,
    ExitCode,
    FailureReason,
    LoopContext,
    Micro,
    Name,
    Path,
    SentinelState,
    Sha,
    TokenCounts,
)


class SentinelsData(TypedDict):
    """The sentinels of a codon: `loaded` while it lives, `executed` once it has ended."""

    loaded: NotRequired[Sequence[Mapping[str, Any]]]
    executed: NotRequired[Sequence[Mapping[str, Any]]]
    total_cost: int


class CodonData(TypedDict):
    """The data of a codon. Each state has some of the fields: see `codon_types`."""

    codon_id: str
    loop_context: NotRequired[Mapping[str, Any] | None]
    started: NotRequired[bool]
    rig_setup_checkpoint: NotRequired[str]
    checkpoints: NotRequired[Mapping[str, str]]
    sentinels: NotRequired[SentinelsData]
    skip_requested: NotRequired[str]
    pid: NotRequired[int]
    log_path: NotRequired[str]
    previous_session_id: NotRequired[str]
    session_id: NotRequired[str]
    current_cost: NotRequired[int]
    current_tokens: NotRequired[Mapping[str, int]]
    assistant_message_count: NotRequired[int]
    final_cost_set: NotRequired[bool]
    completing: NotRequired[bool]
    exit_code: NotRequired[int]
    failure_reason: NotRequired[Mapping[str, Any]]
    ignored: NotRequired[bool]
    failed_during: NotRequired[str]
    skipped_during: NotRequired[str]
    final_cost: NotRequired[int]
    final_tokens: NotRequired[Mapping[str, int]]
    partial_cost: NotRequired[int]
    partial_tokens: NotRequired[Mapping[str, int]]
    result_message_received: NotRequired[bool]
    context_exceeded: NotRequired[bool]
    budget_exceeded: NotRequired[Mapping[str, Any]]
    completion_checkpoint: NotRequired[str]
    error_checkpoint: NotRequired[str]
    skip_checkpoint: NotRequired[str]


class NewCodon(Shape):
    """The codon of the plan that is executed, and the iteration of its loop."""

    codon_id: Name
    loop_context: LoopContext | None = None


class CodonStart(Shape):
    """The rig is set up. `checkpoint_sha` is the workspace after that."""

    checkpoint_sha: Sha | None = None


class CodonInitialize(Shape):
    """The agent's process lives; the id of its session is not known yet."""

    pid: Annotated[int, Field(ge=1)]
    log_path: Path
    previous_session_id: Name | None = None


class CodonRun(Shape):
    """The agent is at work in this session."""

    session_id: Name


class CodonCompleteSentinels(Shape):
    """The agent has ended; its sentinels finish their calls."""


class CodonComplete(Shape):
    """The agent did its work. The checkpoint is the workspace after that."""

    checkpoint_sha: Sha
    result_message_received: bool = False
    context_exceeded: bool = False
    budget_exceeded: BudgetExceeded | None = None


class CodonFail(Shape):
    """The failure of a codon; the record knows its state. An exit code of -1: no process."""

    exit_code: ExitCode
    failure_reason: FailureReason
    checkpoint_sha: Sha | None = None
    ignored: bool = False


class CodonSkip(Shape):
    """The codon was skipped. The checkpoint is the workspace as the codon left it."""

    checkpoint_sha: Sha | None = None


class CodonSkipRequested(Shape):
    """The reason why the codon is to be skipped."""

    reason: Detail = ""


class CodonLost(Shape):
    """The way in which the supervisor was lost, as a code and in words."""

    code: Annotated[str, Field(max_length=limits.CODE_LENGTH_MAX)] = ""
    detail: Detail = ""


class CodonRunEnded(Shape):
    """The reason why the run of the codon has ended."""

    reason: Detail = ""


# The payloads of the published events that change no state.


class CodonCosts(Shape):
    """The cost of a codon so far."""

    cost: Micro
    tokens: TokenCounts = TokenCounts()


class CodonCostsIncrement(Shape):
    """The cost of a codon since the last report."""

    cost_delta: Micro
    tokens_delta: TokenCounts = TokenCounts()


class CodonFinalCost(Shape):
    """The final cost of a codon, as its provider reports it."""

    final_cost: Micro
    final_tokens: TokenCounts = TokenCounts()


class CodonMessageCount(Shape):
    """The number of messages that the agent has written."""

    new_count: Count


class CodonSentinelStates(Shape):
    """The state of every sentinel of a codon."""

    sentinel_states: Annotated[tuple[SentinelState, ...], Field(max_length=SENTINELS_MAX)]


class CodonCheckpoint(Shape):
    """A checkpoint of the workspace was taken."""

    checkpoint_type: CheckpointType
    sha: Sha
    branch: Name
