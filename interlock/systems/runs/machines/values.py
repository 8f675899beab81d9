"""The values of which the payloads of runs and codons consist.

Money is in micro-dollars, times are ms since the epoch.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationError

from interlock import Shape
from interlock.system.errors import InvalidPayloadError
from interlock.system.tables import problem_of
from interlock.systems.runs.machines import limits

Micro = Annotated[int, Field(ge=0, le=limits.MICRO_MAX)]
Count = Annotated[int, Field(ge=0, le=limits.MICRO_MAX)]
Milliseconds = Annotated[int, Field(ge=0, le=limits.MILLISECONDS_MAX)]
Detail = Annotated[str, Field(max_length=limits.DETAIL_LENGTH_MAX)]
Name = Annotated[str, Field(min_length=1, max_length=limits.NAME_LENGTH_MAX)]
Path = Annotated[str, Field(min_length=1, max_length=limits.PATH_LENGTH_MAX)]
ExitCode = Annotated[int, Field(ge=-limits.EXIT_CODE_MAX, le=limits.EXIT_CODE_MAX)]


def not_blank(text: str) -> str:
    """Check that a text is not blank."""
    if not text.strip():
        raise ValueError("must not be blank")
    return text


Sha = Annotated[str, Field(max_length=limits.SHA_LENGTH_MAX), AfterValidator(not_blank)]


class FailureType(StrEnum):
    """The reasons for the failure of a codon: the published values."""

    TIMEOUT = "timeout"
    RATE_LIMIT = "rate-limit"
    API_ERROR = "api-error"
    SENTINEL_LOAD_FAILURE = "sentinel-load-failure"
    UNKNOWN = "unknown"


class CheckpointType(StrEnum):
    """The times at which checkpoints are taken."""

    RIG_SETUP = "rig-setup"
    COMPLETED = "completed"
    ERROR = "error"
    SKIPPED = "skipped"


class UnloadReason(StrEnum):
    """The reasons for unloading a sentinel: the published ones, and `shutdown`, which is ours."""

    CODON_COMPLETE = "codon-complete"
    FATAL_ERROR = "fatal-error"
    CONSECUTIVE_FAILURES = "consecutive-failures"
    SHUTDOWN = "shutdown"


class TokenCounts(Shape):
    """The four kinds of tokens that providers charge for."""

    input_tokens: Count = 0
    output_tokens: Count = 0
    cache_creation_tokens: Count = 0
    cache_read_tokens: Count = 0


class LoopContext(Shape):
    """The place of a codon in a loop: iteration and index count from 0."""

    loop_id: Name
    iteration: Count
    index: Count


class SentinelState(Shape):
    """One sentinel, and what it did for its codon so far."""

    id: Name
    model: Annotated[str, Field(max_length=limits.NAME_LENGTH_MAX)]
    loaded_at: Milliseconds
    unloaded_at: Milliseconds | None = None
    llm_call_count: Count = 0
    failed_llm_calls: Count = 0
    total_cost: Micro = 0
    status: Literal["active", "unloaded"] = "active"
    unload_reason: UnloadReason | None = None
    last_llm_call_at: Milliseconds | None = None
    total_triggers: Count = 0


class FailureReason(Shape):
    """The failure of a codon, whether another try can help, and how long to wait before it."""

    type: FailureType
    retriable: bool
    message: Detail = ""
    retry_after_ms: Annotated[int, Field(ge=0, le=limits.RETRY_AFTER_MS_MAX)] | None = None
    sentinel_refs: Annotated[tuple[Name, ...], Field(max_length=limits.SENTINELS_MAX)] | None = None


class BudgetExceeded(Shape):
    """The budget that was used up: its limit, and what was used at that time."""

    currency: Literal["cost", "duration", "output_tokens"]
    limit: Count
    used: Count


class ContinuationSource(Shape):
    """The start of a run in an earlier one: that run, its codon ('': before all), a checkpoint."""

    run_id: Name
    after_codon: Annotated[str, Field(max_length=limits.NAME_LENGTH_MAX)] = ""
    checkpoint_sha: Sha


class FreshStart(Shape):
    """The run begins with the workspace as it is."""

    kind: Literal["fresh"] = "fresh"


class ContinuedStart(Shape):
    """The run goes on from a checkpoint of an earlier run.

    `restores` is ours: without it the workspace stays as a person has changed it since.
    """

    kind: Literal["continuation"] = "continuation"
    source: ContinuationSource
    reason: Literal["retry", "rollback", "continue"]
    restores: bool = True


StartingConditions = Annotated[FreshStart | ContinuedStart, Field(discriminator="kind")]


@contextmanager
def fitting(subject: str, *, below: int = 0) -> Iterator[None]:
    """Raise InvalidPayloadError, which names each wrong field, where values do not fit a model.

    `subject` names the values; the first `below` names in the path of a field are left out.
    """
    try:
        yield
    except ValidationError as refusal:
        errors = refusal.errors(include_url=False)
        problems = [problem_of(one, ".".join(map(str, one["loc"][below:]))) for one in errors]
        raise InvalidPayloadError(subject, problems) from None
