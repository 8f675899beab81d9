"""A codon as one type for each state: what is not known yet in a state cannot be read there.

Source: Hankweave's state machine page, its discriminated union of executions. It changes nothing.
"""

from __future__ import annotations

from typing import Annotated, Literal, assert_never

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from interlock.kernel.errors import InvalidPayloadError
from interlock.kernel.machines.runs.values import (
    BudgetExceeded,
    CodonStatus,
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
)
from interlock.kernel.payload import Shape
from interlock.kernel.record import Record


class LoadedSentinels(Shape):
    """Sentinels that are at work: their states still change."""

    loaded: tuple[SentinelState, ...]
    total_cost: Micro


class ExecutedSentinels(Shape):
    """Sentinels whose work is over: nothing of this changes any more."""

    executed: tuple[SentinelState, ...]
    total_cost: Micro


class _Codon(BaseModel):
    # What is only the table's own, such as a wish to skip it, is nobody else's.
    model_config = ConfigDict(extra="ignore", frozen=True)

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


class PreparingCodon(_Codon):
    """Its rig is set up: files are copied, commands run."""

    status: Literal[CodonStatus.PREPARING]


class StartingCodon(_Started):
    """Its agent's process is started."""

    status: Literal[CodonStatus.STARTING]


class InitializingCodon(_Launched):
    """The process lives, and has not named its session."""

    status: Literal[CodonStatus.INITIALIZING]


class RunningCodon(_AtWork):
    """The agent is at work."""

    status: Literal[CodonStatus.RUNNING]


class CompletingSentinelsCodon(_AtWork):
    """The agent has ended, its sentinels have not."""

    status: Literal[CodonStatus.COMPLETING_SENTINELS]


class CompletedCodon(_Ended):
    """It did its work."""

    status: Literal[CodonStatus.COMPLETED]
    log_path: Path
    session_id: Name
    final_cost: Micro
    final_tokens: TokenCounts
    exit_code: Literal[0]
    result_message_received: bool
    context_exceeded: bool = False
    budget_exceeded: BudgetExceeded | None = None
    completion_checkpoint: Sha


class FailedCodon(_Unfinished):
    """It failed, while what is known."""

    status: Literal[CodonStatus.FAILED]
    failed_during: CodonStatus
    exit_code: ExitCode
    failure_reason: FailureReason
    ignored: bool = False
    error_checkpoint: Sha | None = None


class SkippedCodon(_Unfinished):
    """Somebody skipped it. What was spent is kept, and counts as nothing."""

    status: Literal[CodonStatus.SKIPPED]
    skipped_during: CodonStatus
    assistant_message_count: Count | None = None
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
_CODONS: TypeAdapter[Codon] = TypeAdapter(Annotated[Codon, Field(discriminator="status")])


def codon_of(record: Record) -> Codon:
    """Return a codon's record as the type of its state.

    Raises InvalidPayloadError where its data is not what its state has: it is corrupt.
    """
    status = CodonStatus(record.state)
    times = {"start_time": record.created_ms}
    times |= {"end_time": record.since_ms} if status.is_terminal else {}
    try:
        return _CODONS.validate_python({"status": status, **record.data, **times})
    except ValidationError as refusal:
        problems = [
            f"{'.'.join(str(part) for part in error['loc'][1:])}: {error['msg']}"
            for error in refusal.errors(include_url=False)
        ]
        raise InvalidPayloadError(f"codon {record.id} in {record.state}", problems) from None


def codon_cost(codon: Codon) -> int:
    """Return what a codon counts for, in micro-dollars; its sentinels' cost is not part of it."""
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
    """Return what a codon used of each kind of tokens, as far as it is known."""
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
