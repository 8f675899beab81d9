"""From the published events of runs to the triggers of the tables, and back. Pure.

`wanted` returns the trigger of an event; `published` returns the event of a line of a log.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from interlock import Event
from interlock.systems.runs.machines.codon.changes import FORCED, forced
from interlock.systems.runs.machines.codon.names import TO, State
from interlock.systems.runs.machines.codon.names import Trigger as CodonTrigger
from interlock.systems.runs.machines.codon.payloads import CodonData
from interlock.systems.runs.machines.codon.table import CODON
from interlock.systems.runs.machines.errors import InvalidTransitionError, MetadataValidationError
from interlock.systems.runs.machines.events import (
    AssistantMessageCountUpdated,
    CheckpointCreated,
    CodonFinalCostSet,
    CodonTransitioned,
    CodonTransitionedData,
    CostsIncremented,
    CostsUpdated,
    InitialCheckpointSet,
    RunCompleted,
    RunCrashed,
    RunFailed,
    SentinelStatesUpdated,
    missing,
    published_form,
    run_event,
)
from interlock.systems.runs.machines.run.payloads import RunData
from interlock.systems.runs.machines.run.table import RUN
from interlock.systems.runs.machines.run.table import Trigger as RunTrigger

# The triggers of the events that are no CodonTransitioned.
OF_CODONS: Mapping[str, CodonTrigger] = {
    "CostsUpdated": CodonTrigger.COSTS_UPDATED,
    "CostsIncremented": CodonTrigger.COSTS_INCREMENTED,
    "AssistantMessageCountUpdated": CodonTrigger.ASSISTANT_MESSAGE_COUNT_UPDATED,
    "CodonFinalCostSet": CodonTrigger.CODON_FINAL_COST_SET,
    "SentinelStatesUpdated": CodonTrigger.SENTINEL_STATES_UPDATED,
    "CheckpointCreated": CodonTrigger.CHECKPOINT_CREATED,
}
OF_RUNS: Mapping[str, RunTrigger] = {
    "RunCompleted": RunTrigger.COMPLETE,
    "RunFailed": RunTrigger.FAIL,
    "RunCrashed": RunTrigger.CRASH,
    "InitialCheckpointSet": RunTrigger.INITIAL_CHECKPOINT_SET,
}
_CODON_TYPES = {str(trigger): name for name, trigger in OF_CODONS.items()}
_RUN_TYPES = {str(trigger): name for name, trigger in OF_RUNS.items()}
# The fields of a posted transition that must be the state of the record, and that it keeps itself.
_STATE_FIELDS = ("failed_during", "skipped_during")

RunFired: TypeAlias = (
    RunCompleted
    | RunFailed
    | RunCrashed
    | InitialCheckpointSet
    | CodonTransitioned
    | CostsUpdated
    | CostsIncremented
    | AssistantMessageCountUpdated
    | CodonFinalCostSet
    | SentinelStatesUpdated
    | CheckpointCreated
)


def wanted(event: RunFired, state: str) -> tuple[str, dict[str, Any]]:
    """Return the trigger and the payload that an event fires at its record, which is in `state`.

    Raises InvalidTransitionError where a codon cannot make the transition or is in another state,
    MetadataValidationError where a required field is missing.
    """
    if isinstance(event, CodonTransitioned):
        return _transition(event.data, State(state))
    data = published_form(event)["data"]
    payload = {name: value for name, value in data.items() if name not in ("run_id", "codon_id")}
    if isinstance(event, RunCrashed):
        payload = {"code": "told", "detail": event.data.reason}
    return str({**OF_CODONS, **OF_RUNS}[event.type]), payload


def published(event: Event, machine: str, data: Any) -> dict[str, Any] | None:
    """Return the published event of a line of a log, or None where there is none.

    `data` is that of the line's record, as it is now.
    """
    found: dict[str, Any] | None = None
    if machine == CODON.name:
        found = _of_codon(event, data)
    elif machine == RUN.name:
        found = _of_run(event, data)
    return published_form(run_event(found)) if found else None


def _transition(data: CodonTransitionedData, state: State) -> tuple[str, dict[str, Any]]:
    trigger = TO.get(data.to)
    if data.from_ is not state or trigger is None or not CODON.rows(state, trigger):
        raise InvalidTransitionError(state, data.to)
    metadata = data.metadata.model_dump(mode="json", exclude_none=True)
    if lacking := missing(data.to, metadata):
        raise MetadataValidationError(data.to, lacking)
    for name in _STATE_FIELDS:
        if metadata.pop(name, state) != state:
            raise InvalidTransitionError(getattr(data.metadata, name), data.to)
    return str(trigger), metadata


def _of_codon(event: Event, data: CodonData) -> dict[str, Any] | None:
    ids = {"run_id": event.record_id.rpartition("/")[0], "codon_id": data["codon_id"]}
    payload = dict(event.payload)
    if event.trigger == "created":
        context = {"loop_context": payload.get("loop_context")}
        return {"type": "CodonStarted", "data": {**ids, **context}}
    if event.trigger in _CODON_TYPES:
        return {"type": _CODON_TYPES[event.trigger], "data": {**ids, **payload}}
    if event.source == event.target:
        return None
    if event.target == State.FAILED:
        failure = forced(event.trigger, payload) if event.trigger in FORCED else payload
        payload = {**failure, "failed_during": event.source}
    elif event.target == State.SKIPPED:
        payload["skipped_during"] = event.source
    moved = {"from": event.source, "to": event.target, "metadata": payload}
    return {"type": "CodonTransitioned", "data": {**ids, **moved}}


def _of_run(event: Event, data: RunData) -> dict[str, Any] | None:
    ids, payload = {"run_id": event.record_id}, event.payload
    match event.trigger:
        case "created":
            began = {
                **ids,
                "run_folder": data["folder"],
                "branch": branch_of(event.record_id),
                "starting_conditions": payload["starting"],
                "host": payload["host"],
            }
            return {"type": "RunStarted", "data": began}
        case RunTrigger.COMPLETE | RunTrigger.FAIL:
            ended = {"reason": payload.get("reason", "")}
            return {"type": _RUN_TYPES[event.trigger], "data": {**ids, **ended}}
        case RunTrigger.CRASH:
            seen = {"detected_at": event.at_ms, "reason": payload.get("detail", "")}
            return {"type": "RunCrashed", "data": {**ids, **seen}}
        case RunTrigger.INITIAL_CHECKPOINT_SET:
            return {"type": "InitialCheckpointSet", "data": {**ids, "sha": payload["sha"]}}
        case _:
            return None


def branch_of(run_id: str) -> str:
    """Return the branch that has a run's checkpoints."""
    return f"run-{run_id.rpartition('/')[2]}"
