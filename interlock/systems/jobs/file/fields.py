"""The fields of a graph's file, and the payload fields that each stands for.

The kernel's models of the payloads define which values are valid; this module has the names that
the file uses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, TypeAdapter, ValidationError
from pydantic import Field as Limit

from interlock.system.files import (
    DURATION,
    MONEY,
    PATH,
    PLAIN,
    PRIORITY,
    SLOTS,
    Field,
    PartialPayload,
    ValueKind,
    file_model,
    nested_field,
    write_fields,
)
from interlock.systems.jobs.machines.graph.payloads import GraphLimits, NewGraph
from interlock.systems.jobs.machines.job.limits import PHASES_MAX
from interlock.systems.jobs.machines.job.payloads import (
    Hours,
    JobExecutor,
    JobLimits,
    JobPhase,
    Line,
    NewJob,
)

_HOURS: TypeAdapter[str] = TypeAdapter(Hours)
# The value of `review` for a step without a reviewer in a graph whose defaults name one.
NO_REVIEW = "none"


def job_payload(payload: PartialPayload) -> PartialPayload:
    """Return the canonical payload of a job, which leaves out every value that is the default.

    Raises pydantic's ValidationError if a field is unknown, invalid or missing.
    """
    return NewJob.model_validate(payload).model_dump(mode="json", exclude_defaults=True)


def graph_payload(payload: PartialPayload) -> PartialPayload:
    """Return the canonical payload of a graph. Raises as `job_payload` does."""
    return NewGraph.model_validate(payload).model_dump(mode="json", exclude_defaults=True)


def merged(*layers: PartialPayload) -> PartialPayload:
    """Return one payload of several, of which a later one wins; limits are merged one by one."""
    found: PartialPayload = {}
    for layer in layers:
        more = layer.get("limits")
        limits = None if more is None else {**(found.get("limits") or {}), **more}
        found |= layer
        if limits is not None:
            found["limits"] = limits
    return {name: value for name, value in found.items() if value is not None}


def _executor(value: Any) -> Any:
    """Return the executor of a step or review as a mapping. A text is a command."""
    if isinstance(value, str):
        return {"command": value}
    if isinstance(value, dict):
        return value
    raise ValueError("write a command, or one of command, capability and model with what it is")


def _checked_executor(executor: BaseModel) -> BaseModel:
    found = merged(executor.model_dump(exclude_unset=True))
    # What is in the parameters is checked where it is written.
    JobExecutor.model_validate(found | ({"parameters": {"": 0}} if found.get("parameters") else {}))
    return executor


def _review(value: Any) -> Any:
    return None if value == NO_REVIEW else _executor(value)


def _hours(value: Any) -> Any:
    try:
        return _HOURS.validate_python(value)
    except ValidationError as refusal:
        raise ValueError("write hours of the day, in UTC, like 22:00-06:00") from refusal


def payload_of(written: PartialPayload) -> PartialPayload:
    """Return the payload fields of the fields of a step or of defaults."""
    payload = {key: value for key, value in written.items() if key not in ("worker", "health")}
    phases = [{"worker": written["worker"]}] if written.get("worker") else written.get("phases")
    if phases is not None:
        payload["phases"] = [merged(phase, {"worker": merged(phase["worker"])}) for phase in phases]
    if payload.get("review"):
        payload["review"] = merged(payload["review"])
    if "health" in written:
        payload |= written["health"] or {field.name: None for field in HEALTH.values()}
    return payload


def written_step(payload: PartialPayload) -> dict[str, Any]:
    """Return the fields of a step that `payload_of` turns into this payload."""
    names = {field.name for field in HEALTH.values()}
    health = {key: value for key, value in payload.items() if key in names}
    rest = {key: value for key, value in payload.items() if key not in names}
    if "phases" in rest:
        rest["worker"] = _only_worker(rest["phases"])
        del rest["worker" if rest["worker"] is None else "phases"]
    return write_fields(rest | ({"health": health} if health else {}), STEP)


def _written_executor(executor: PartialPayload) -> Any:
    """Return how an executor is written: as a text if it is only a command."""
    if [*executor] == ["command"] and executor["command"] != NO_REVIEW:
        return executor["command"]
    return write_fields(executor, EXECUTOR)


def _only_worker(phases: Sequence[PartialPayload]) -> Any:
    """Return the worker of the only phase; None if there are more, or if it has a name."""
    first, *others = phases
    return None if others or "name" in first else first["worker"]


def _written_phases(phases: Sequence[PartialPayload]) -> Any:
    return [write_fields(phase, PHASE_FIELDS) for phase in phases]


def _limits(model: type[BaseModel]) -> Field:
    fields = {
        "cost": Field("cost_micro", MONEY),
        "time": Field("time_s", DURATION),
        "iterations": Field("iterations"),
    }
    return nested_field("limits", model, fields)


EXECUTOR: Mapping[str, Field] = {
    "command": Field("command"),
    "capability": Field("capability"),
    "parameters": Field("parameters", form=dict[Any, Any]),
    "model": Field("model"),
    "cost": Field("cost_micro", MONEY),
}
_EXECUTOR: Any = Annotated[file_model(JobExecutor, EXECUTOR), AfterValidator(_checked_executor)]
_WORKER_KIND = ValueKind(_executor, _written_executor)
PHASE_FIELDS: Mapping[str, Field] = {
    "name": Field("name"),
    "worker": Field(
        "worker", _WORKER_KIND, form=_EXECUTOR, required="say who works: `worker: <command>`"
    ),
}
_PHASE: Any = file_model(JobPhase, PHASE_FIELDS)
_PHASES: Any = Annotated[list[_PHASE], Limit(min_length=1, max_length=PHASES_MAX)]
# The fields that a step takes over from its graph if neither the step nor the defaults set them.
INHERITED = ("remind_s", "stewards", "on_cancel", "folder")
GRAPH: Mapping[str, Field] = {
    "description": Field("description"),
    "slots": Field("slots", SLOTS),
    "limits": _limits(GraphLimits),
    "remind": Field("remind_s", DURATION),
    "stewards": Field("stewards"),
    "on_cancel": Field("on_cancel"),
    "folder": Field("folder", PATH, form=Line),
    "dir": Field("dir", PATH, form=Line),
}
HEALTH: Mapping[str, Field] = {
    "running": Field("running_s", DURATION),
    "reviewing": Field("reviewing_s", DURATION),
    "recoveries": Field("recoveries_max"),
}
# A file is written in this order.
STEP: Mapping[str, Field] = {
    "description": Field("description"),
    "objective": Field("objective"),
    "details": Field("details"),
    "acceptance": Field("acceptance"),
    "tags": Field("tags"),
    "worker": Field("worker", _WORKER_KIND, form=_EXECUTOR),
    "phases": Field("phases", ValueKind(PLAIN.read, _written_phases), form=_PHASES),
    "review": Field("review", ValueKind(_review, _written_executor), form=_EXECUTOR | None),
    "auto_approve": Field("auto_approve"),
    "manual": Field("manual"),
    "hold": Field("hold"),
    "queue": Field("queue"),
    "hours": Field("hours", ValueKind(_hours, PLAIN.write)),
    "priority": Field("priority", PRIORITY),
    "limits": _limits(JobLimits),
    "health": nested_field("health", NewJob, HEALTH),
    "retries": Field("retries_max"),
    "retry_delay": Field("retry_delay_s", DURATION),
    "remind": Field("remind_s", DURATION),
    "stewards": Field("stewards"),
    "on_cancel": Field("on_cancel"),
    "folder": Field("folder", PATH, form=Line),
    "dir": Field("dir", PATH, form=Line),
}
GRAPH_FORM = file_model(NewGraph, GRAPH, apart=("graph", "defaults", "steps"))
STEP_FORM = file_model(NewJob, STEP, apart=("name", "depends_on"))
DEFAULTS_FORM = file_model(
    NewJob, {key: field for key, field in STEP.items() if key not in ("worker", "phases", "dir")}
)
