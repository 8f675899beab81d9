"""The 13 published events of runs and codons, typed and versioned.

They come in through a workspace's inbox and go out to those who follow it, in one form:
`{"version": 1, "type": "CostsUpdated", "data": {...}}`. Source: Hankweave's state machine page; an
event with the page's own names and units is read as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, TypeAdapter, ValidationError

from interlock import Shape
from interlock.system.errors import InvalidPayloadError
from interlock.system.tables import problem_of
from interlock.systems.runs.machines import limits
from interlock.systems.runs.machines.codon.names import State
from interlock.systems.runs.machines.codon.payloads import (
    CodonCheckpoint,
    CodonCosts,
    CodonCostsIncrement,
    CodonFinalCost,
    CodonMessageCount,
    CodonSentinelStates,
)
from interlock.systems.runs.machines.published_names import (
    from_published,
    is_published,
    published_name,
    with_our_states,
)
from interlock.systems.runs.machines.values import (
    BudgetExceeded,
    Detail,
    ExitCode,
    FailureReason,
    FreshStart,
    LoopContext,
    Milliseconds,
    Name,
    Path,
    Sha,
    StartingConditions,
)


class TransitionMetadata(Shape):
    """The fields of a transition; `REQUIRED` says which of them each target needs."""

    pid: Annotated[int, Field(ge=1)] | None = None
    log_path: Path | None = None
    previous_session_id: Name | None = None
    session_id: Name | None = None
    exit_code: ExitCode | None = None
    failure_reason: FailureReason | None = None
    failed_during: State | None = None
    ignored: bool | None = None
    skipped_during: State | None = None
    result_message_received: bool | None = None
    context_exceeded: bool | None = None
    budget_exceeded: BudgetExceeded | None = None
    checkpoint_sha: Annotated[str, Field(max_length=limits.SHA_LENGTH_MAX)] | None = None


REQUIRED: Mapping[State, tuple[str, ...]] = {
    State.INITIALIZING: ("pid", "log_path"),
    State.RUNNING: ("session_id",),
    State.COMPLETED: ("checkpoint_sha",),
    State.FAILED: ("exit_code", "failure_reason", "failed_during"),
    State.SKIPPED: ("skipped_during",),
}


def missing(to: State, metadata: Mapping[str, Any]) -> list[str]:
    """Return the fields that a transition to a state requires and lacks; a blank one is lacking."""
    given = {name for name, value in metadata.items() if value is not None and str(value).strip()}
    return [name for name in REQUIRED.get(to, ()) if name not in given]


class RunEventData(Shape):
    """The run of an event: the number that follows its workspace's name, or its whole id."""

    run_id: Name


class CodonEventData(RunEventData):
    """The codon of an event, by its id in the plan."""

    codon_id: Name


class RunStartedData(RunEventData):
    """A run began."""

    run_folder: Path
    branch: Name
    starting_conditions: StartingConditions = FreshStart()
    host: Annotated[str, Field(max_length=limits.HOST_LENGTH_MAX)] = ""


class RunEndedData(RunEventData):
    """A run ended."""

    reason: Detail = ""


class RunCrashedData(RunEventData):
    """The supervisor of a run is gone."""

    detected_at: Milliseconds | None = None
    last_codon_status: State | None = None
    reason: Detail = ""


class CodonStartedData(CodonEventData):
    """A codon was added to its run."""

    loop_context: LoopContext | None = None


class CodonTransitionedData(CodonEventData):
    """A codon changed its state."""

    from_: State = Field(alias="from")
    to: State
    metadata: TransitionMetadata = TransitionMetadata()


class CostsUpdatedData(CodonCosts, CodonEventData):
    """The cost of a codon so far."""


class CostsIncrementedData(CodonCostsIncrement, CodonEventData):
    """The cost of a codon since the last report."""


class AssistantMessageCountUpdatedData(CodonMessageCount, CodonEventData):
    """The number of messages that the agent has written."""


class CodonFinalCostSetData(CodonFinalCost, CodonEventData):
    """The final cost of a codon, as its provider reports it."""


class SentinelStatesUpdatedData(CodonSentinelStates, CodonEventData):
    """The state of every sentinel of a codon."""


class CheckpointCreatedData(CodonCheckpoint, CodonEventData):
    """A checkpoint of the workspace was taken."""


class InitialCheckpointSetData(RunEventData):
    """The workspace as the run found it."""

    sha: Sha


class _VersionedEvent(Shape):
    version: Literal[1] = 1


class RunStarted(_VersionedEvent):
    """Creates a run."""

    type: Literal["RunStarted"] = "RunStarted"
    data: RunStartedData


class RunCompleted(_VersionedEvent):
    """The last codon of a run has ended."""

    type: Literal["RunCompleted"] = "RunCompleted"
    data: RunEndedData


class RunFailed(_VersionedEvent):
    """A codon of the run failed, or something that cannot be repaired."""

    type: Literal["RunFailed"] = "RunFailed"
    data: RunEndedData


class RunCrashed(_VersionedEvent):
    """The supervisor of a run is gone."""

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
    """Sets how many messages the agent has written."""

    type: Literal["AssistantMessageCountUpdated"] = "AssistantMessageCountUpdated"
    data: AssistantMessageCountUpdatedData


class CodonFinalCostSet(_VersionedEvent):
    """Sets the cost that the provider reports."""

    type: Literal["CodonFinalCostSet"] = "CodonFinalCostSet"
    data: CodonFinalCostSetData


class SentinelStatesUpdated(_VersionedEvent):
    """Sets the states of the sentinels."""

    type: Literal["SentinelStatesUpdated"] = "SentinelStatesUpdated"
    data: SentinelStatesUpdatedData


class CheckpointCreated(_VersionedEvent):
    """Keeps a checkpoint of a codon."""

    type: Literal["CheckpointCreated"] = "CheckpointCreated"
    data: CheckpointCreatedData


class InitialCheckpointSet(_VersionedEvent):
    """Keeps the checkpoint that a run began with."""

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
TYPES = tuple(str(model.model_fields["type"].default) for model in get_args(RunEvent))


@cache
def _events() -> TypeAdapter[RunEvent]:
    return TypeAdapter(Annotated[RunEvent, Field(discriminator="type")])


def run_event(data: Mapping[str, Any]) -> RunEvent:
    """Read one event, with our names or with the page's.

    Raises InvalidPayloadError, which names every field that is wrong as the event does.
    """
    if isinstance(data, Mapping) and data.get("type") not in TYPES:
        problem = f"type: {data.get('type')!r} is none of {', '.join(TYPES)}"
        raise InvalidPayloadError("the event", [problem])
    try:
        is_theirs = is_published(data)
        ours = from_published(data) if is_theirs else with_our_states(data)
    except RecursionError:
        raise InvalidPayloadError("the event", ["it is nested too deeply"]) from None
    try:
        return _events().validate_python(ours)
    except ValidationError as refusal:
        problems = []
        for error in refusal.errors(include_url=False):
            parts = [str(part) for part in error["loc"][1:]]
            where = ".".join(map(published_name, parts) if is_theirs else parts) or "type"
            problems.append(problem_of(error, where))
        raise InvalidPayloadError("the event", problems) from None


def published_form(event: RunEvent) -> dict[str, Any]:
    """Return an event in its published form, as JSON-able data, without the fields it lacks."""
    return event.model_dump(mode="json", by_alias=True, exclude_none=True)


def checked(data: Mapping[str, Any]) -> dict[str, Any]:
    """Check an event that is posted to a workspace."""
    return published_form(run_event(data))
