"""A codon as one type for each state, so that a field can only be read where a state has it.

Source: Hankweave's state machine page, its discriminated union of executions.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Literal, assert_never

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from interlock import Shape
from interlock.system.tables import Record
from interlock.systems.runs.machines.codon.names import State
from interlock.systems.runs.machines.codon.payloads import CodonData
from interlock.systems.runs.machines.values import (
    BudgetExceeded,
    Count,
    ExitCode,
    FailureReason,
    LoopContext,
    Micro,
    Milliseconds,
    Name,
    Path,
    SentinelState,
    Sha,
    TokenCounts,
    fitting,
)


class LoadedSentinels(Shape):
    """Sentinels that are at work: their states may still change."""

    loaded: tuple[SentinelState, ...]
    total_cost: Micro


class ExecutedSentinels(Shape):
    """Sentinels whose work is over: their states no longer change."""

    executed: tuple[SentinelState, ...]
    total_cost: Micro


class _Codon(BaseModel):
    # Fields that only the table needs, such as a request to skip the codon, are left out.
    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)

    codon_id: Name
    start_time: Milliseconds
    loop_context: LoopContext | None = None


class _Started(_Codon):
    rig_setup_checkpoint: Sha | None = None
    sentinels: LoadedSentinels | None = None


class _Launched(_Started):
    pid: Count
    log_path: Path
    previous_session_id: Name | None = None


class _AtWork(_Launched):
    session_id: Name
    current_cost: Micro
    current_tokens: TokenCounts
    assistant_message_count: Count


class _Ended(_Codon):
    end_time: Milliseconds
    rig_setup_checkpoint: Sha | None = None
    sentinels: ExecutedSentinels | None = None
    previous_session_id: Name | None = None


class _Unfinished(_Ended):
    pid: Count | None = None
    log_path: Path | None = None
    session_id: Name | None = None
    partial_cost: Micro
    partial_tokens: TokenCounts
    assistant_message_count: Count | None = None


class PreparingCodon(_Codon):
    """The rig is set up: files are copied, commands run."""

    status: Literal[State.PREPARING]


class StartingCodon(_Started):
    """The agent's process is started."""

    status: Literal[State.STARTING]


class InitializingCodon(_Launched):
    """The process lives; its session is not known yet."""

    status: Literal[State.INITIALIZING]


class RunningCodon(_AtWork):
    """The agent is at work."""

    status: Literal[State.RUNNING]


class CompletingSentinelsCodon(_AtWork):
    """The agent has ended, its sentinels have not."""

    status: Literal[State.COMPLETING_SENTINELS]


class CompletedCodon(_Ended):
    """The agent did its work."""

    status: Literal[State.COMPLETED]
    log_path: Path
    session_id: Name
    final_cost: Micro
    final_tokens: TokenCounts
    assistant_message_count: Count
    exit_code: Literal[0]
    result_message_received: bool
    context_exceeded: bool = False
    budget_exceeded: BudgetExceeded | None = None
    completion_checkpoint: Sha


class FailedCodon(_Unfinished):
    """The codon failed; `failed_during` says in which state."""

    status: Literal[State.FAILED]
    failed_during: State
    exit_code: ExitCode
    failure_reason: FailureReason
    ignored: bool = False
    error_checkpoint: Sha | None = None


class SkippedCodon(_Unfinished):
    """The codon was skipped. What was spent is kept; the codon itself costs nothing."""

    status: Literal[State.SKIPPED]
    skipped_during: State
    skip_checkpoint: Sha | None = None


Codon = (
    PreparingCodon
    | StartingCodon
    | InitializingCodon
    | RunningCodon
    | CompletingSentinelsCodon
    | CompletedCodon
    | FailedCodon
    | SkippedCodon
)


@cache
def codon_types() -> TypeAdapter[Codon]:
    """Return the validator of these types, which takes a hundredth of a second to build."""
    return TypeAdapter(Annotated[Codon, Field(discriminator="status")])


def codon_of(record: Record[CodonData]) -> Codon:
    """Return a codon's record as the type of its state.

    Raises InvalidPayloadError where its data does not fit its state: the record is corrupt.
    """
    status = State(record.state)
    times = {"start_time": record.created_ms}
    times |= {"end_time": record.since_ms} if status.is_terminal else {}
    fields = {"status": status, **record.data, **times}
    return codon_from(fields, f"codon {record.id} in {record.state}")


def codon_from(fields: Mapping[str, Any], subject: str) -> Codon:
    """Return the fields of a codon as the type of its state, which is in `status`.

    `subject` names the codon in the InvalidPayloadError that is raised where they do not fit.
    """
    with fitting(subject, below=1):
        return codon_types().validate_python(fields)


def codon_cost(codon: Codon) -> int:
    """Return what a codon costs, in micro-dollars, without its sentinels."""
    match codon:
        case CompletedCodon():
            return codon.final_cost
        case FailedCodon():
            return codon.partial_cost
        case RunningCodon() | CompletingSentinelsCodon():
            return codon.current_cost
        case SkippedCodon() | PreparingCodon() | StartingCodon() | InitializingCodon():
            return 0
    assert_never(codon)


def codon_tokens(codon: Codon) -> TokenCounts:
    """Return how many tokens of each kind a codon used; 0 where that is not known."""
    match codon:
        case CompletedCodon():
            return codon.final_tokens
        case FailedCodon() | SkippedCodon():
            return codon.partial_tokens
        case RunningCodon() | CompletingSentinelsCodon():
            return codon.current_tokens
        case PreparingCodon() | StartingCodon() | InitializingCodon():
            return TokenCounts()
    assert_never(codon)
