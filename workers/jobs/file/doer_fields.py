"""Who works on a step and who reviews it: how a graph's file says so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from interlock.kernel.machines.jobs.job.payloads import PHASE, JobExecutor, JobPhase
from interlock.workers.jobs.file.field import Field, Parts, merged, one, read_fields, write_fields
from interlock.workers.specs.json_line import shown
from interlock.workers.specs.problems import Place
from interlock.workers.specs.values import MONEY, check_json
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
        JobExecutor.model_validate(parts)
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


_PARAMETERS = one(JobExecutor, "parameters")
DOER: Mapping[str, Field] = {
    "command": one(JobExecutor, "command"),
    "capability": one(JobExecutor, "capability"),
    "parameters": Field(_PARAMETERS.born, _parameters, _PARAMETERS.write),
    "model": one(JobExecutor, "model"),
    "cost": one(JobExecutor, "cost_micro", MONEY),
}
PHASE_FIELDS: Mapping[str, Field] = {
    "name": one(JobPhase, "name"),
    "worker": Field(("worker",), _worker, lambda parts: _written_doer(parts["worker"])),
}
# Both are the phases of a birth: a worker is the only one, without a name.
WORKER = Field(("phases",), _only_phase, _written_worker)
PHASES = Field(("phases",), _phases, _written_phases)
REVIEW = Field(("review",), _review, lambda parts: _written_doer(parts["review"]))
