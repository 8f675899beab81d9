"""The fields of a graph's file, and the payload fields that each stands for.

The kernel's models of the payloads define which values are valid; this module has the names that
the file uses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from interlock.kernel.machines.jobs.graph.payloads import GraphLimits, NewGraph
from interlock.kernel.machines.jobs.job.payloads import (
    PHASE,
    JobExecutor,
    JobLimits,
    JobPhase,
    NewJob,
)
from interlock.workers.specs.fields import (
    Field,
    PartialPayload,
    checked_payload,
    flat_fields,
    nested_fields,
    payload_field,
    read_fields,
    single_field,
    write_fields,
)
from interlock.workers.specs.json_line import shown
from interlock.workers.specs.problems import Location
from interlock.workers.specs.values import (
    DURATION,
    MONEY,
    PATH,
    PRIORITY,
    SLOTS,
    check_json,
)
from interlock.workers.specs.yaml_document import Node

PHASES_MAX = 50
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


def _executor(node: Node, location: Location) -> PartialPayload:
    """Return the executor of a step or review; {} if it is refused. A text is a command."""
    if isinstance(node.value, str):
        return EXECUTOR["command"].read(node, location)
    if not isinstance(node.value, dict):
        problem = "write a command, or one of command, capability and model with what it is"
        location.refuse(node.line, f"{shown(node.plain())}: {problem}")
        return {}
    before = location.problems.count
    executor = merged(read_fields(node, EXECUTOR, location))
    if location.problems.count == before:
        checked_payload(_executor_payload, executor, node.line, location)
    return executor


def _executor_payload(payload: PartialPayload) -> PartialPayload:
    return JobExecutor.model_validate(payload).model_dump(mode="json", exclude_defaults=True)


def _parameters(node: Node, location: Location) -> PartialPayload:
    before = location.problems.count
    check_json(node, location)
    if location.problems.count > before:
        return {}
    return _PARAMETERS.read(node, location)


def _single_phase(node: Node, location: Location) -> PartialPayload:
    return {"phases": [{"worker": _executor(node, location)}]}


def _review(node: Node, location: Location) -> PartialPayload:
    if node.value == NO_REVIEW:
        return {"review": None}
    return {"review": _executor(node, location)}


def _phases(node: Node, location: Location) -> PartialPayload:
    entries = location.entries(node)
    if isinstance(node.value, list) and not 1 <= len(entries) <= PHASES_MAX:
        location.refuse(node.line, f"these are {len(entries)}, write 1 to {PHASES_MAX}")
        return {}
    found: list[PartialPayload] = []
    lines: dict[str, int] = {}
    for index, entry in enumerate(entries):
        inside = location.inside(index)
        before = location.problems.count
        phase = merged(read_fields(entry, PHASE_FIELDS, inside))
        if location.problems.count > before:
            continue
        name, line = phase.get("name", PHASE), entry.value.get("name", entry).line
        if name in lines:
            problem = f"line {lines[name]} has a phase {name!r} as well; choose another name"
            inside.inside("name").refuse(line, problem)
        lines.setdefault(name, line)
        found.append(phase)
    return {"phases": found}


def _written_executor(executor: PartialPayload) -> Any:
    """Return how an executor is written: as a text if it is only a command."""
    if [*executor] == ["command"] and executor["command"] != NO_REVIEW:
        return executor["command"]
    return write_fields(executor, EXECUTOR)


def _written_worker(payload: PartialPayload) -> Any:
    """Return the worker of the only phase; None if there are more, or if it has a name."""
    first, *others = payload["phases"]
    return None if others or "name" in first else _written_executor(first["worker"])


def _written_phases(payload: PartialPayload) -> Any:
    if _written_worker(payload) is not None:
        return None
    return [write_fields(phase, PHASE_FIELDS) for phase in payload["phases"]]


def _limits(model: type[BaseModel]) -> Field:
    fields = {
        "cost": payload_field(model, "cost_micro", MONEY),
        "time": payload_field(model, "time_s", DURATION),
        "iterations": payload_field(model, "iterations"),
    }
    return nested_fields("limits", fields)


_PARAMETERS = payload_field(JobExecutor, "parameters")
EXECUTOR: Mapping[str, Field] = {
    "command": payload_field(JobExecutor, "command"),
    "capability": payload_field(JobExecutor, "capability"),
    "parameters": Field(_PARAMETERS.names, _parameters, _PARAMETERS.write),
    "model": payload_field(JobExecutor, "model"),
    "cost": payload_field(JobExecutor, "cost_micro", MONEY),
}
PHASE_FIELDS: Mapping[str, Field] = {
    "name": payload_field(JobPhase, "name"),
    "worker": single_field(
        "worker", _executor, _written_executor, "say who works: `worker: <command>`"
    ),
}
# `worker` and `phases` of the file are both `phases` of the payload: a worker is one phase.
WORKER = Field(("phases",), _single_phase, _written_worker)
PHASES = Field(("phases",), _phases, _written_phases)
REVIEW = Field(("review",), _review, lambda payload: _written_executor(payload["review"]))
# The fields that a step takes over from its graph if neither the step nor the defaults set them.
INHERITED = ("remind_s", "stewards", "on_cancel", "folder")
GRAPH: Mapping[str, Field] = {
    "description": payload_field(NewGraph, "description"),
    "slots": payload_field(NewGraph, "slots", SLOTS),
    "limits": _limits(GraphLimits),
    "remind": payload_field(NewGraph, "remind_s", DURATION),
    "stewards": payload_field(NewGraph, "stewards"),
    "on_cancel": payload_field(NewGraph, "on_cancel"),
    "folder": payload_field(NewJob, "folder", PATH),
    "dir": payload_field(NewJob, "dir", PATH),
}
# A file is written in this order.
STEP: Mapping[str, Field] = {
    "description": payload_field(NewJob, "description"),
    "objective": payload_field(NewJob, "objective"),
    "details": payload_field(NewJob, "details"),
    "acceptance": payload_field(NewJob, "acceptance"),
    "tags": payload_field(NewJob, "tags"),
    "worker": WORKER,
    "phases": PHASES,
    "review": REVIEW,
    "auto_approve": payload_field(NewJob, "auto_approve"),
    "manual": payload_field(NewJob, "manual"),
    "hold": payload_field(NewJob, "hold"),
    "queue": payload_field(NewJob, "queue"),
    "hours": payload_field(NewJob, "hours"),
    "priority": payload_field(NewJob, "priority", PRIORITY),
    "limits": _limits(JobLimits),
    "health": flat_fields(
        {
            "running": payload_field(NewJob, "running_s", DURATION),
            "reviewing": payload_field(NewJob, "reviewing_s", DURATION),
            "recoveries": payload_field(NewJob, "recoveries_max"),
        }
    ),
    "retries": payload_field(NewJob, "retries_max"),
    "retry_delay": payload_field(NewJob, "retry_delay_s", DURATION),
    "remind": payload_field(NewJob, "remind_s", DURATION),
    "stewards": payload_field(NewJob, "stewards"),
    "on_cancel": payload_field(NewJob, "on_cancel"),
    "folder": payload_field(NewJob, "folder", PATH),
    "dir": payload_field(NewJob, "dir", PATH),
}
DEFAULTS: Mapping[str, Field] = {
    key: field for key, field in STEP.items() if key not in ("worker", "phases", "dir")
}
