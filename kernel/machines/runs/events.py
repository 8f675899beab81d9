"""The 13 published events of runs of codons, typed and versioned; it applies none.

They come in through a workspace's inbox and go out to whoever follows it, in one shape:
`{"version": 1, "type": "CostsUpdated", "data": {...}}`. Source: Hankweave's state machine page.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from interlock.kernel.errors import InvalidPayloadError
from interlock.kernel.machines.runs.values import (
    SENTINELS_MAX,
    BudgetExceeded,
    CheckpointType,
    CodonStatus,
    Count,
    Detail,
    ExitCode,
    FailureReason,
    FreshStart,
    LoopContext,
    Micro,
    Milliseconds,
    Name,
    Path,
    SentinelState,
    Sha,
    StartingConditions,
    TokenCounts,
)
from interlock.kernel.payload import Shape


class TransitionMetadata(Shape):
    """What a transition needs to say; which of it depends on where it leads."""

    pid: Annotated[int, Field(ge=1)] | None = None
    log_path: Path | None = None
    previous_session_id: Name | None = None
    session_id: Name | None = None
    exit_code: ExitCode | None = None
    failure_reason: FailureReason | None = None
    failed_during: CodonStatus | None = None
    ignored: bool | None = None
    skipped_during: CodonStatus | None = None
    result_message_received: bool | None = None
    context_exceeded: bool | None = None
    budget_exceeded: BudgetExceeded | None = None
    checkpoint_sha: Annotated[str, Field(max_length=100)] | None = None


REQUIRED: Mapping[CodonStatus, tuple[str, ...]] = {
    CodonStatus.INITIALIZING: ("pid", "log_path"),
    CodonStatus.RUNNING: ("session_id",),
    CodonStatus.COMPLETED: ("checkpoint_sha",),
    CodonStatus.FAILED: ("exit_code", "failure_reason", "failed_during"),
    CodonStatus.SKIPPED: ("skipped_during",),
}


def missing(to: CodonStatus, metadata: Mapping[str, Any]) -> list[str]:
    """Return what a transition to a state must say and does not; a blank is nothing said."""
    said = {name for name, value in metadata.items() if value is not None and str(value).strip()}
    return [name for name in REQUIRED.get(to, ()) if name not in said]


class CodonCosts(Shape):
    """What a codon has cost so far."""

    cost: Micro
    tokens: TokenCounts = TokenCounts()


class CodonCostsIncrement(Shape):
    """What a codon has cost more."""

    cost_delta: Micro
    tokens_delta: TokenCounts = TokenCounts()


class CodonFinalCost(Shape):
    """What a codon has cost, as its provider says in the end."""

    final_cost: Micro
    final_tokens: TokenCounts = TokenCounts()


class CodonMessageCount(Shape):
    """How many messages the agent has written."""

    new_count: Count


class CodonSentinelStates(Shape):
    """Where every sentinel of a codon stands."""

    sentinel_states: Annotated[tuple[SentinelState, ...], Field(max_length=SENTINELS_MAX)]


class CodonCheckpoint(Shape):
    """A checkpoint of the workspace was taken."""

    checkpoint_type: CheckpointType
    sha: Sha
    branch: Name


class RunEventData(Shape):
    """Which run it is about: the number that follows its workspace's name, or its whole id."""

    run_id: Name


class CodonEventData(RunEventData):
    """Which codon it is about, by its id in the plan."""

    codon_id: Name


class RunStartedData(RunEventData):
    """A run began."""

    run_folder: Path
    branch: Name
    starting_conditions: StartingConditions = FreshStart()
    host: Annotated[str, Field(max_length=255)] = ""


class RunEndedData(RunEventData):
    """A run ended."""

    reason: Detail = ""


class RunCrashedData(RunEventData):
    """Who conducted a run is gone."""

    detected_at: Milliseconds | None = None
    last_codon_status: CodonStatus | None = None
    reason: Detail = ""


class CodonStartedData(CodonEventData):
    """A codon was added to its run."""

    loop_context: LoopContext | None = None


class CodonTransitionedData(CodonEventData):
    """A codon changed its state."""

    from_: CodonStatus = Field(alias="from")
    to: CodonStatus
    metadata: TransitionMetadata = TransitionMetadata()


class CostsUpdatedData(CodonCosts, CodonEventData):
    """What a codon has cost so far."""


class CostsIncrementedData(CodonCostsIncrement, CodonEventData):
    """What a codon has cost more."""


class AssistantMessageCountUpdatedData(CodonMessageCount, CodonEventData):
    """How many messages the agent has written."""


class CodonFinalCostSetData(CodonFinalCost, CodonEventData):
    """What a codon has cost, as its provider says in the end."""


class SentinelStatesUpdatedData(CodonSentinelStates, CodonEventData):
    """Where every sentinel of a codon stands."""


class CheckpointCreatedData(CodonCheckpoint, CodonEventData):
    """A checkpoint of the workspace was taken."""


class InitialCheckpointSetData(RunEventData):
    """The workspace as a run found it."""

    sha: Sha


class _VersionedEvent(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Literal[1] = 1


class RunStarted(_VersionedEvent):
    """Creates a run."""

    type: Literal["RunStarted"] = "RunStarted"
    data: RunStartedData


class RunCompleted(_VersionedEvent):
    """Its last codon has ended."""

    type: Literal["RunCompleted"] = "RunCompleted"
    data: RunEndedData


class RunFailed(_VersionedEvent):
    """A codon failed, or something that cannot be mended."""

    type: Literal["RunFailed"] = "RunFailed"
    data: RunEndedData


class RunCrashed(_VersionedEvent):
    """Its conductor is gone."""

    type: Literal["RunCrashed"] = "RunCrashed"
    data: RunCrashedData


class CodonStarted(_VersionedEvent):
    """Adds a codon to a run."""

    type: Literal["CodonStarted"] = "CodonStarted"
    data: CodonStartedData


class CodonTransitioned(_VersionedEvent):
    """Changes a codon's state."""

    type: Literal["CodonTransitioned"] = "CodonTransitioned"
    data: CodonTransitionedData


class CostsUpdated(_VersionedEvent):
    """Sets what a codon has cost."""

    type: Literal["CostsUpdated"] = "CostsUpdated"
    data: CostsUpdatedData


class CostsIncremented(_VersionedEvent):
    """Adds to what a codon has cost."""

    type: Literal["CostsIncremented"] = "CostsIncremented"
    data: CostsIncrementedData


class AssistantMessageCountUpdated(_VersionedEvent):
    """Sets how many messages there are."""

    type: Literal["AssistantMessageCountUpdated"] = "AssistantMessageCountUpdated"
    data: AssistantMessageCountUpdatedData


class CodonFinalCostSet(_VersionedEvent):
    """Sets the authoritative cost."""

    type: Literal["CodonFinalCostSet"] = "CodonFinalCostSet"
    data: CodonFinalCostSetData


class SentinelStatesUpdated(_VersionedEvent):
    """Sets where the sentinels stand."""

    type: Literal["SentinelStatesUpdated"] = "SentinelStatesUpdated"
    data: SentinelStatesUpdatedData


class CheckpointCreated(_VersionedEvent):
    """Keeps a checkpoint."""

    type: Literal["CheckpointCreated"] = "CheckpointCreated"
    data: CheckpointCreatedData


class InitialCheckpointSet(_VersionedEvent):
    """Keeps what a run began with."""

    type: Literal["InitialCheckpointSet"] = "InitialCheckpointSet"
    data: InitialCheckpointSetData


RunEvent = (
    RunStarted
    | RunCompleted
    | RunFailed
    | RunCrashed
    | CodonStarted
    | CodonTransitioned
    | CostsUpdated
    | CostsIncremented
    | AssistantMessageCountUpdated
    | CodonFinalCostSet
    | SentinelStatesUpdated
    | CheckpointCreated
    | InitialCheckpointSet
)
TYPES = tuple(str(one.model_fields["type"].default) for one in get_args(RunEvent))
_EVENTS: TypeAdapter[RunEvent] = TypeAdapter(Annotated[RunEvent, Field(discriminator="type")])


def run_event(said: Mapping[str, Any]) -> RunEvent:
    """Read one event. Raises InvalidPayloadError, which names every field that is wrong."""
    if isinstance(said, Mapping) and said.get("type") not in TYPES:
        problem = f"type: {said.get('type')!r} is none of {', '.join(TYPES)}"
        raise InvalidPayloadError("the event", [problem])
    try:
        return _EVENTS.validate_python(said)
    except ValidationError as refusal:
        problems = []
        for error in refusal.errors(include_url=False):
            where = ".".join(str(part) for part in error["loc"][1:]) or "type"
            problems.append(f"{where}: {error['msg'].removeprefix('Value error, ')}")
        raise InvalidPayloadError("the event", problems) from None


def told(event: RunEvent) -> dict[str, Any]:
    """Return an event in its published shape, JSON-able, without what it does not say."""
    return event.model_dump(mode="json", by_alias=True, exclude_none=True)


def admitted(said: Mapping[str, Any]) -> dict[str, Any]:
    """Check what is posted to a workspace."""
    return told(run_event(said))
