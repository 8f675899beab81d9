"""The payloads of a codon: for its creation, and for its triggers. Money is in micro-dollars."""

from __future__ import annotations

from typing import Annotated

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
