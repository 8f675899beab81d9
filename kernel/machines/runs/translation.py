"""Between the published events of runs and the tables that decide; it fires nothing.

`wanted` says what an event asks of which record; `published` says which event a line of a log is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlock.kernel.errors import InvalidTransitionError, MetadataValidationError
from interlock.kernel.event import Event
from interlock.kernel.machines.runs.codon.changes import FORCED, forced
from interlock.kernel.machines.runs.codon.names import TO
from interlock.kernel.machines.runs.codon.names import Trigger as OfCodon
from interlock.kernel.machines.runs.codon.table import CODON
from interlock.kernel.machines.runs.events import (
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
    run_event,
    told,
)
from interlock.kernel.machines.runs.run.table import T as OfRun
from interlock.kernel.machines.runs.values import CodonStatus
from interlock.kernel.record import parent_of
from interlock.kernel.table import Data

# What an event without a transition fires, as it is.
OF_CODONS: Mapping[str, OfCodon] = {
    "CostsUpdated": OfCodon.COSTS_UPDATED,
    "CostsIncremented": OfCodon.COSTS_INCREMENTED,
    "AssistantMessageCountUpdated": OfCodon.ASSISTANT_MESSAGE_COUNT_UPDATED,
    "CodonFinalCostSet": OfCodon.CODON_FINAL_COST_SET,
    "SentinelStatesUpdated": OfCodon.SENTINEL_STATES_UPDATED,
    "CheckpointCreated": OfCodon.CHECKPOINT_CREATED,
}
OF_RUNS: Mapping[str, OfRun] = {
    "RunCompleted": OfRun.COMPLETE,
    "RunFailed": OfRun.FAIL,
    "RunCrashed": OfRun.CRASH,
    "InitialCheckpointSet": OfRun.INITIAL_CHECKPOINT_SET,
}
_CODON_TYPES = {str(trigger): name for name, trigger in OF_CODONS.items()}
_RUN_TYPES = {str(trigger): name for name, trigger in OF_RUNS.items()}
# What a posted transition says besides is what the table itself knows better.
_KNOWN = ("failed_during", "skipped_during")

RunFired = (
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
    """Return the trigger and the payload that an event fires at the record it is about.

    `state` is where that stands. Raises InvalidTransitionError where a codon cannot make the
    transition, or stands elsewhere; MetadataValidationError where something is not said.
    """
    if isinstance(event, CodonTransitioned):
        return _transition(event.data, CodonStatus(state))
    said = told(event)["data"]
    payload = {name: value for name, value in said.items() if name not in ("run_id", "codon_id")}
    if isinstance(event, RunCrashed):
        payload = {"code": "told", "detail": event.data.reason}
    return str({**OF_CODONS, **OF_RUNS}[event.type]), payload


def published(event: Event, machine: str, about: Data) -> dict[str, Any] | None:
    """Return the published event that a log's line is; None where it is none.

    `about` is the data of the record the line is of, as it is now.
    """
    if machine == "codon":
        run_id = str(parent_of(event.record_id))
        found = _of_codon(event, {"run_id": run_id, "codon_id": about["codon_id"]})
    elif machine == "run":
        found = _of_run(event, {"run_id": event.record_id}, about)
    else:
        found = None
    return told(run_event(found)) if found else None


def _transition(data: CodonTransitionedData, state: CodonStatus) -> tuple[str, dict[str, Any]]:
    trigger = TO.get(data.to)
    if data.from_ is not state or trigger is None or not CODON.rows(state, trigger):
        raise InvalidTransitionError(state, data.to)
    metadata = data.metadata.model_dump(mode="json", exclude_none=True)
    if lacking := missing(data.to, metadata):
        raise MetadataValidationError(data.to, lacking)
    for name in _KNOWN:
        if metadata.pop(name, state) != state:
            raise InvalidTransitionError(getattr(data.metadata, name), data.to)
    return str(trigger), metadata


def _of_codon(event: Event, of: dict[str, Any]) -> dict[str, Any] | None:
    payload = dict(event.payload)
    if event.trigger == "created":
        told_of = {"loop_context": payload.get("loop_context")}
        return {"type": "CodonStarted", "data": {**of, **told_of}}
    if event.trigger in _CODON_TYPES:
        return {"type": _CODON_TYPES[event.trigger], "data": {**of, **payload}}
    if event.source == event.target:
        return None
    if event.target == CodonStatus.FAILED:
        failure = forced(event.trigger, payload) if event.trigger in FORCED else payload
        payload = {**failure, "failed_during": event.source}
    elif event.target == CodonStatus.SKIPPED:
        payload["skipped_during"] = event.source
    moved = {"from": event.source, "to": event.target, "metadata": payload}
    return {"type": "CodonTransitioned", "data": {**of, **moved}}


def _of_run(event: Event, of: dict[str, Any], about: Data) -> dict[str, Any] | None:
    payload = event.payload
    match event.trigger:
        case "created":
            began = {"run_folder": about["folder"], "branch": branch_of(event.record_id)}
            began |= {"starting_conditions": payload["starting"], "host": payload["host"]}
            return {"type": "RunStarted", "data": {**of, **began}}
        case OfRun.COMPLETE | OfRun.FAIL:
            ended = {"reason": payload.get("reason", "")}
            return {"type": _RUN_TYPES[event.trigger], "data": {**of, **ended}}
        case OfRun.CRASH:
            seen = {"detected_at": event.at_ms, "reason": payload.get("detail", "")}
            return {"type": "RunCrashed", "data": {**of, **seen}}
        case OfRun.INITIAL_CHECKPOINT_SET:
            return {"type": "InitialCheckpointSet", "data": {**of, "sha": payload["sha"]}}
        case _:
            return None


def branch_of(run_id: str) -> str:
    """Return the branch on which a run's checkpoints are."""
    return f"run-{run_id.rpartition('/')[2]}"
