"""The fields of a graph's file: what each is called there, and what it is born as.

What a value may be is said by the kernel's own models of a birth; here are only the file's words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from interlock.kernel.machines.jobs.graph.table import Birth as GraphBirth
from interlock.kernel.machines.jobs.graph.table import Limits as GraphLimits
from interlock.kernel.machines.jobs.job.payloads import PHASE, Birth, Doer, Limits, Phase
from interlock.workers.jobs.file.field import (
    Field,
    Parts,
    apart,
    merged,
    one,
    read_fields,
    together,
    write_fields,
)
from interlock.workers.specs.json_line import shown
from interlock.workers.specs.problems import Place
from interlock.workers.specs.values import MONEY, PATH, PRIORITY, SLOTS, SPAN, check_json
from interlock.workers.specs.yaml_document import Node

PHASES_MAX = 50
# What a step without a reviewer says where the defaults have one.
NO_REVIEW = "none"


def _doer(node: Node, place: Place) -> Parts:
    """Return who works or reviews, or nothing where it is refused. A text is a command."""
    if isinstance(node.value, str):
        return DOER["command"].read(node, place)
    if not isinstance(node.value, dict):
        problem = "write a command, or one of command, capability and model with what it is"
        place.refuse(node.line, f"{shown(node.plain())}: {problem}")
        return {}
    before = place.problems.count
    parts = merged(read_fields(node, DOER, place))
    if place.problems.count == before:
        _check_doer(parts, node, place)
    return parts


def _check_doer(parts: Parts, node: Node, place: Place) -> None:
    """Tell the place why the parts are not those of one doer."""
    try:
        Doer.model_validate(parts)
    except ValidationError as refusal:
        for problem in refusal.errors(include_url=False):
            place.refuse(node.line, problem["msg"].removeprefix("Value error, "))


def _parameters(node: Node, place: Place) -> Parts:
    before = place.problems.count
    check_json(node, place)
    if place.problems.count > before:
        return {}
    return _PARAMETERS.read(node, place)


def _worker(node: Node, place: Place) -> Parts:
    return {"worker": _doer(node, place)}


def _only_phase(node: Node, place: Place) -> Parts:
    return {"phases": [_worker(node, place)]}


def _review(node: Node, place: Place) -> Parts:
    if node.value == NO_REVIEW:
        return {"review": None}
    return {"review": _doer(node, place)}


def _phases(node: Node, place: Place) -> Parts:
    entries = place.entries(node)
    if isinstance(node.value, list) and not 1 <= len(entries) <= PHASES_MAX:
        place.refuse(node.line, f"these are {len(entries)}, write 1 to {PHASES_MAX}")
        return {}
    found: list[Parts] = []
    lines: dict[str, int] = {}
    for index, entry in enumerate(entries):
        inside = place.inside(index)
        before = place.problems.count
        phase = merged(read_fields(entry, PHASE_FIELDS, inside))
        if place.problems.count > before:
            continue
        if "worker" not in phase:
            inside.refuse(entry.line, "say who works: `worker: <command>`")
            continue
        name, line = phase.get("name", PHASE), entry.value.get("name", entry).line
        if name in lines:
            problem = f"line {lines[name]} has a phase {name!r} as well; choose another name"
            inside.inside("name").refuse(line, problem)
        lines.setdefault(name, line)
        found.append(phase)
    return {"phases": found}


def _written_doer(doer: Parts) -> Any:
    """Return a doer as it is written: one who is no more than a command is that text."""
    if [*doer] == ["command"] and doer["command"] != NO_REVIEW:
        return doer["command"]
    return write_fields(doer, DOER)


def _written_worker(parts: Parts) -> Any:
    """Return the worker of the only phase, unless that has a name."""
    first, *others = parts["phases"]
    return None if others or "name" in first else _written_doer(first["worker"])


def _written_phases(parts: Parts) -> Any:
    if _written_worker(parts) is not None:
        return None
    return [write_fields(phase, PHASE_FIELDS) for phase in parts["phases"]]


_PARAMETERS = one(Doer, "parameters")
DOER: Mapping[str, Field] = {
    "command": one(Doer, "command"),
    "capability": one(Doer, "capability"),
    "parameters": Field(_PARAMETERS.born, _parameters, _PARAMETERS.write),
    "model": one(Doer, "model"),
    "cost": one(Doer, "cost_micro", MONEY),
}
PHASE_FIELDS: Mapping[str, Field] = {
    "name": one(Phase, "name"),
    "worker": Field(("worker",), _worker, lambda parts: _written_doer(parts["worker"])),
}
# Both are the phases of a birth: a worker is the only one, without a name.
WORKER = Field(("phases",), _only_phase, _written_worker)
PHASES = Field(("phases",), _phases, _written_phases)
REVIEW = Field(("review",), _review, lambda parts: _written_doer(parts["review"]))


def job_as_born(parts: Parts) -> Parts:
    """Return a job's parts in the one way to write them: without what is as it always is.

    Raises pydantic's ValidationError if they are none of a job's, or no whole.
    """
    return Birth.model_validate(parts).model_dump(mode="json", exclude_defaults=True)


def graph_as_born(parts: Parts) -> Parts:
    """Return a graph's parts in the same way. Raises as `job_as_born` does."""
    return GraphBirth.model_validate(parts).model_dump(mode="json", exclude_defaults=True)


def _limits(model: type[BaseModel]) -> Field:
    fields = {
        "cost": one(model, "cost_micro", MONEY),
        "time": one(model, "time_s", SPAN),
        "iterations": one(model, "iterations"),
    }
    return together("limits", fields)


# What a step has of its graph if neither it nor the defaults say otherwise.
INHERITED = ("remind_s", "stewards", "on_cancel", "folder")
GRAPH: Mapping[str, Field] = {
    "description": one(GraphBirth, "description"),
    "slots": one(GraphBirth, "slots", SLOTS),
    "limits": _limits(GraphLimits),
    "remind": one(GraphBirth, "remind_s", SPAN),
    "stewards": one(GraphBirth, "stewards"),
    "on_cancel": one(GraphBirth, "on_cancel"),
    "folder": one(Birth, "folder", PATH),
    "dir": one(Birth, "dir", PATH),
}
# The order is that of a written file.
STEP: Mapping[str, Field] = {
    "description": one(Birth, "description"),
    "objective": one(Birth, "objective"),
    "details": one(Birth, "details"),
    "acceptance": one(Birth, "acceptance"),
    "worker": WORKER,
    "phases": PHASES,
    "review": REVIEW,
    "auto_approve": one(Birth, "auto_approve"),
    "manual": one(Birth, "manual"),
    "hold": one(Birth, "hold"),
    "queue": one(Birth, "queue"),
    "priority": one(Birth, "priority", PRIORITY),
    "limits": _limits(Limits),
    "health": apart(
        {
            "running": one(Birth, "running_s", SPAN),
            "reviewing": one(Birth, "reviewing_s", SPAN),
            "recoveries": one(Birth, "recoveries_max"),
        }
    ),
    "retries": one(Birth, "retries_max"),
    "retry_delay": one(Birth, "retry_delay_s", SPAN),
    "remind": one(Birth, "remind_s", SPAN),
    "stewards": one(Birth, "stewards"),
    "on_cancel": one(Birth, "on_cancel"),
    "folder": one(Birth, "folder", PATH),
    "dir": one(Birth, "dir", PATH),
}
DEFAULTS: Mapping[str, Field] = {
    word: field for word, field in STEP.items() if word not in ("worker", "phases", "dir")
}
