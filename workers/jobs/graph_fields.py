"""The fields of a graph's file: what each is called there, what it is born as, how it is read.

What a value may be is said by the kernel's own models of a birth; here are only the file's words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from pydantic import BaseModel, ValidationError

from kernel.machines.graph.table import Birth as GraphBirth
from kernel.machines.graph.table import Limits as GraphLimits
from kernel.machines.job.payloads import PHASE, Birth, Doer, Limits, Phase
from workers.jobs.graph_problems import Place
from workers.jobs.graph_values import (
    MONEY,
    PATH,
    PLAIN,
    PRIORITY,
    SLOTS,
    SPAN,
    Kind,
    check_json,
    read_value,
)
from workers.json_line import shown
from workers.yaml_document import Node

PHASES_MAX = 50
# What a step without a reviewer says where the defaults have one.
NO_REVIEW = "none"
# Parts of a birth by their names there. None: nothing, also where a default says otherwise.
Parts: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Field:
    """A field: the parts of a birth that it is about, how they are read and how they are written.

    `write` returns None where another field with the same parts says it better.
    """

    born: tuple[str, ...]
    read: Callable[[Node, Place], Parts]
    write: Callable[[Parts], Any]


def read_fields(node: Node, fields: Mapping[str, Field], place: Place) -> Parts:
    """Return the parts that the fields of a mapping are born as; the place is told what is wrong.

    A null takes away what a default says.
    """
    parts: Parts = {}
    for word, inner in place.fields(node, fields).items():
        parts |= read_field(inner, fields[word], place.inside(word))
    return parts


def read_field(node: Node, field: Field, place: Place) -> Parts:
    """Return the parts that one field is born as."""
    if node.value is None:
        return dict.fromkeys(field.born)
    return field.read(node, place)


def write_fields(parts: Parts, fields: Mapping[str, Field]) -> Parts:
    """Return the fields that parts are read from, in the order of the fields."""
    found: Parts = {}
    for word, field in fields.items():
        mine = {born: parts[born] for born in field.born if born in parts}
        if any(value is not None for value in mine.values()):
            value = field.write(mine)
            found |= {} if value is None else {word: value}
        elif mine:
            found[word] = None
    return found


def merged(*layers: Parts) -> Parts:
    """Return parts where later layers count more; limits are merged one by one."""
    found: Parts = {}
    for layer in layers:
        more = layer.get("limits")
        limits = None if more is None else {**(found.get("limits") or {}), **more}
        found |= layer
        if limits is not None:
            found["limits"] = limits
    return {born: value for born, value in found.items() if value is not None}


def job_as_born(parts: Parts) -> Parts:
    """Return a job's parts in the one way to write them: without what is as it always is.

    Raises pydantic's ValidationError if they are none of a job's, or no whole.
    """
    return Birth.model_validate(parts).model_dump(mode="json", exclude_defaults=True)


def graph_as_born(parts: Parts) -> Parts:
    """Return a graph's parts in the same way; `on_cancel` is there for its jobs alone."""
    known = {born: value for born, value in parts.items() if born != "on_cancel"}
    found = GraphBirth.model_validate(known).model_dump(mode="json", exclude_defaults=True)
    usual = Birth.model_fields["on_cancel"].default
    if parts.get("on_cancel", usual) != usual:
        found["on_cancel"] = parts["on_cancel"]
    return found


def _one(model: type[BaseModel], born: str, kind: Kind = PLAIN) -> Field:
    def read(node: Node, place: Place) -> Parts:
        value = read_value(model, born, kind, node, place)
        return {} if value is None else {born: value}

    return Field((born,), read, lambda parts: kind.write(parts[born]))


def _apart(fields: Mapping[str, Field]) -> Field:
    """Return a field whose own fields are parts of the birth themselves."""
    return Field(
        tuple(part for field in fields.values() for part in field.born),
        lambda node, place: read_fields(node, fields, place),
        lambda parts: write_fields(parts, fields),
    )


def _together(born: str, fields: Mapping[str, Field]) -> Field:
    """Return a field whose own fields are one part of the birth."""
    return Field(
        (born,),
        lambda node, place: {born: read_fields(node, fields, place)},
        lambda parts: write_fields(parts[born], fields),
    )


def _limits(model: type[BaseModel]) -> Field:
    fields = {
        "cost": _one(model, "cost_micro", MONEY),
        "time": _one(model, "time_s", SPAN),
        "iterations": _one(model, "iterations"),
    }
    return _together("limits", fields)


def _doer(node: Node, place: Place) -> Parts | None:
    """Return who works or reviews. A text is a command."""
    if isinstance(node.value, str):
        return DOER["command"].read(node, place) or None
    if not isinstance(node.value, dict):
        problem = "write a command, or one of command, capability and model with what it is"
        place.refuse(node.line, f"{shown(node.plain())}: {problem}")
        return None
    before = place.problems.count
    parts = merged(read_fields(node, DOER, place))
    if place.problems.count > before or not _accepted(Doer, parts, node, place):
        return None
    return parts


def _parameters(node: Node, place: Place) -> Parts:
    before = place.problems.count
    check_json(node, place)
    if place.problems.count > before:
        return {}
    return _one(Doer, "parameters").read(node, place)


def _worker(node: Node, place: Place) -> Parts:
    doer = _doer(node, place)
    return {"worker": doer} if doer else {}


def _only_phase(node: Node, place: Place) -> Parts:
    phase = _worker(node, place)
    return {"phases": [phase]} if phase else {}


def _review(node: Node, place: Place) -> Parts:
    if node.value == NO_REVIEW:
        return {"review": None}
    doer = _doer(node, place)
    return {"review": doer} if doer else {}


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
        name = phase.get("name", PHASE)
        if name in lines:
            problem = f"line {lines[name]} has a phase {name!r} as well; choose another name"
            inside.inside("name").refuse(entry.line, problem)
        lines[name] = entry.line
        found.append(phase)
    return {"phases": found}


def _accepted(model: type[BaseModel], parts: Parts, node: Node, place: Place) -> bool:
    """Whether the parts are a whole; the place is told why not."""
    try:
        model.model_validate(parts)
    except ValidationError as refusal:
        for one in refusal.errors(include_url=False):
            place.refuse(node.line, one["msg"].removeprefix("Value error, "))
        return False
    return True


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


DOER: Mapping[str, Field] = {
    "command": _one(Doer, "command"),
    "capability": _one(Doer, "capability"),
    "parameters": Field(("parameters",), _parameters, lambda parts: parts["parameters"]),
    "model": _one(Doer, "model"),
    "cost": _one(Doer, "cost_micro", MONEY),
}
PHASE_FIELDS: Mapping[str, Field] = {
    "name": _one(Phase, "name"),
    "worker": Field(("worker",), _worker, lambda parts: _written_doer(parts["worker"])),
}
# What a step has of its graph if neither it nor the defaults say otherwise.
INHERITED = ("remind_s", "stewards", "on_cancel", "folder")
GRAPH: Mapping[str, Field] = {
    "description": _one(GraphBirth, "description"),
    "slots": _one(GraphBirth, "slots", SLOTS),
    "limits": _limits(GraphLimits),
    "remind": _one(GraphBirth, "remind_s", SPAN),
    "stewards": _one(GraphBirth, "stewards"),
    "on_cancel": _one(Birth, "on_cancel"),
    "folder": _one(Birth, "folder", PATH),
    "dir": _one(Birth, "dir", PATH),
}
# The order is that of a written file.
STEP: Mapping[str, Field] = {
    "description": _one(Birth, "description"),
    "objective": _one(Birth, "objective"),
    "details": _one(Birth, "details"),
    "acceptance": _one(Birth, "acceptance"),
    "worker": Field(("phases",), _only_phase, _written_worker),
    "phases": Field(("phases",), _phases, _written_phases),
    "review": Field(("review",), _review, lambda parts: _written_doer(parts["review"])),
    "auto_approve": _one(Birth, "auto_approve"),
    "manual": _one(Birth, "manual"),
    "hold": _one(Birth, "hold"),
    "queue": _one(Birth, "queue"),
    "priority": _one(Birth, "priority", PRIORITY),
    "limits": _limits(Limits),
    "health": _apart(
        {
            "running": _one(Birth, "running_s", SPAN),
            "reviewing": _one(Birth, "reviewing_s", SPAN),
            "recoveries": _one(Birth, "recoveries_max"),
        }
    ),
    "retries": _one(Birth, "retries_max"),
    "retry_delay": _one(Birth, "retry_delay_s", SPAN),
    "remind": _one(Birth, "remind_s", SPAN),
    "stewards": _one(Birth, "stewards"),
    "on_cancel": _one(Birth, "on_cancel"),
    "folder": _one(Birth, "folder", PATH),
    "dir": _one(Birth, "dir", PATH),
}
DEFAULTS: Mapping[str, Field] = {
    word: field for word, field in STEP.items() if word not in ("worker", "phases", "dir")
}
