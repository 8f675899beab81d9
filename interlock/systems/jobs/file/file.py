"""Reads and checks a whole graph of jobs that a person wrote, in YAML or JSON.

Every problem that the file alone can show is reported at once. The store is not read: whether jobs
of other graphs exist is checked when the graph is created.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any

from interlock.system.files import (
    ItemNames,
    Location,
    Node,
    Problems,
    checked_payload,
    parse_document,
    read_document,
    read_fields,
    read_name,
    shown,
)
from interlock.system.tables import PRIORITY_DEFAULT
from interlock.systems.jobs.file.dependencies import DependentStep, StepDependencies
from interlock.systems.jobs.file.fields import (
    INHERITED,
    Fields,
    WrittenDefaults,
    WrittenGraph,
    WrittenStep,
    graph_payload,
    job_payload,
    merged,
    payload_of,
)
from interlock.systems.jobs.machines.job.payloads import PHASE

BYTES_MAX = 8 * 1024 * 1024
STEPS_MAX = 20_000
# What is read by itself, step by step.
_APART = ("defaults", "steps")


@dataclass(frozen=True, slots=True)
class Step:
    """One job of a graph: its name there, and its payload without `host`.

    `depends_on` has full ids; folder and directory are absolute. The payload has no field that
    only repeats a default.
    """

    name: str
    priority: int
    line: int
    payload: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class GraphFile:
    """A graph as it was written, without any problem that the file alone can show.

    The payload is that of the graph: description, slots, limits, remind_s, stewards, on_cancel. It
    has no field that only repeats a default.
    """

    path: Path
    name: str
    payload: Mapping[str, Any]
    steps: tuple[Step, ...]


def read_graph(path: Path) -> GraphFile:
    """Read a graph from a file of YAML, or of JSON if its name ends so. Raises FileError."""
    advice = "split it, steps may name jobs of other graphs"
    document = read_document(path, bytes_max=BYTES_MAX, advice=advice)
    return _graph(document.root, document.problems, path)


def parse_graph(text: str, path: Path) -> GraphFile:
    """Read a graph from the text of a file with this path. Raises FileError."""
    document = parse_document(text, path)
    return _graph(document.root, document.problems, path)


def _graph(root: Node, problems: Problems, path: Path) -> GraphFile:
    found = _GraphReader(path, problems).graph(root)
    problems.raise_if_any()
    return found


@dataclass(frozen=True, slots=True)
class _Draft:
    """A step of which only the name has been read; the name is '' if it was refused."""

    name: str
    location: Location
    node: Node

    def written(self, key: str) -> Node | None:
        """Return a field of the step as it is written; None if it is absent or null."""
        node = self.node.value.get(key) if isinstance(self.node.value, dict) else None
        return None if node is None or node.value is None else node


class _GraphReader:
    """Reads one file, and adds everything that is wrong with it to the problems."""

    def __init__(self, path: Path, problems: Problems) -> None:
        self._path, self._problems = path, problems
        self._folder = str(path.parent.resolve())

    def graph(self, root: Node) -> GraphFile:
        """Return the graph, which is valid only if no problem was found."""
        location = Location(self._problems)
        whole = isinstance(root.value, dict)
        own = {k: v for k, v in root.value.items() if k not in _APART} if whole else root.value
        payload = merged(read_fields(WrittenGraph, root.holding(own), location) or {})
        if not whole:
            return GraphFile(self._path, "", {}, ())
        name = self._name(root.at("graph"), location)
        shared = self._shared(payload, root.at("defaults"))
        drafts = self._drafts(name, root.at("steps"))
        dependent = [_dependent_step(draft) for draft in drafts]
        dependencies = StepDependencies(name, dependent).ids()
        steps = [
            # Without a valid name of the graph no id is complete.
            self._step(draft, shared | {"depends_on": ids if name else []}, payload.get("dir"))
            for draft, ids in zip(drafts, dependencies, strict=True)
        ]
        own_payload = {k: value for k, value in payload.items() if k not in ("folder", "dir")}
        checked = checked_payload(graph_payload, own_payload, root, location)
        return GraphFile(self._path, name, checked, tuple(steps))

    def _name(self, node: Node, location: Location) -> str:
        """Return the name of the graph; '' if it is refused."""
        if node.value is None:
            location.refuse(node, "name it: `graph: <name>`")
            return ""
        return read_name(node, location.inside("graph"))

    def _shared(self, graph: Fields, defaults: Node) -> Fields:
        """Return the values of a step that sets none itself."""
        inherited = {"folder": "."} | {name: graph[name] for name in INHERITED if name in graph}
        if defaults.value is None:
            return inherited
        location = Location(self._problems, "defaults")
        _check_parameters(defaults.at("review"), location.inside("review"))
        return merged(inherited, payload_of(read_fields(WrittenDefaults, defaults, location) or {}))

    def _drafts(self, graph: str, node: Node) -> list[_Draft]:
        """Return the steps, and refuse names that are there twice."""
        location = Location(self._problems, path="steps")
        if not isinstance(node.value, list) or not node.value:
            location.refuse(node, "write a list of at least one step")
            return []
        if len(node.value) > STEPS_MAX:
            problem = f"these are {len(node.value)}, at most {STEPS_MAX} are allowed"
            location.refuse(node, f"{problem}; split it, steps may name jobs of other graphs")
            return []
        names = ItemNames(self._problems, "step")
        read = partial(read_name, parent=graph)
        return [
            _Draft(*names.read(entry, "name", read, kind="step", number=number), entry)
            for number, entry in enumerate(node.value, 1)
        ]

    def _step(self, draft: _Draft, shared: Fields, parent: str | None) -> Step:
        """Return a step with the shared values, and with a directory in that of the graph."""
        before = self._problems.count
        own = payload_of(read_fields(WrittenStep, draft.node, draft.location) or {})
        _check_phases(draft.node, draft.location)
        worker, phases = draft.written("worker"), draft.written("phases")
        if worker and phases:
            draft.location.refuse(phases, "it has worker and phases; remove one")
        elif not worker and not phases and isinstance(draft.node.value, dict):
            draft.location.refuse(draft.node, "say who works: `worker: <command>`, or `phases`")
        payload = merged(shared, own)
        priority = payload.pop("priority", PRIORITY_DEFAULT)
        if "folder" in payload:
            payload["folder"] = self._absolute(payload["folder"])
        if "dir" in payload:
            payload["dir"] = self._absolute(payload["dir"])
        elif parent is not None and "dir" not in own:
            payload["dir"] = self._absolute(parent, draft.name)
        if self._problems.count > before or not draft.name:
            payload = {}
        else:
            payload = checked_payload(job_payload, payload, draft.node, draft.location)
        return Step(draft.name, priority, draft.node.line, payload)

    def _absolute(self, path: str, *inside: str) -> str:
        """Return an absolute path; a relative one is relative to the folder of the file."""
        # An absolute path is kept as it is written, so that an exported graph reads the same.
        whole = os.path.join(path, *inside)  # noqa: PTH118 - a Path would normalize it
        if os.path.isabs(whole):  # noqa: PTH117
            return whole
        return os.path.normpath(os.path.join(self._folder, whole))  # noqa: PTH118


def _check_phases(step: Node, location: Location) -> None:
    """Refuse two phases of one name, and parameters that JSON cannot hold."""
    for key in ("worker", "review"):
        _check_parameters(step.at(key), location.inside(key))
    phases = step.at("phases").value
    lines: dict[str, int] = {}
    for index, phase in enumerate(phases if isinstance(phases, list) else ()):
        inside = location.inside("phases", index)
        _check_parameters(phase.at("worker"), inside.inside("worker"))
        name = phase.at("name").value or PHASE
        if not isinstance(name, str) or not isinstance(phase.value, dict):
            continue
        if name in lines:
            problem = f"line {lines[name]} has a phase {name!r} as well; choose another name"
            inside.inside("name").refuse(phase.value.get("name", phase), problem)
        lines.setdefault(name, phase.value.get("name", phase).line)


def _check_parameters(executor: Node, location: Location) -> None:
    if isinstance(executor.at("parameters").value, dict):
        _check_json(executor.at("parameters"), location.inside("parameters"))


def _check_json(node: Node, location: Location) -> None:
    """Refuse every value that JSON cannot hold."""
    if isinstance(node.value, dict):
        for key, inner in node.value.items():
            if isinstance(key, str) and _is_text(key):
                _check_json(inner, location.inside(key))
            else:
                problem = f"the key {shown(key)} is not text; put it in quotation marks"
                location.refuse(inner, problem)
    elif isinstance(node.value, list):
        for index, inner in enumerate(node.value):
            _check_json(inner, location.inside(index))
    elif isinstance(node.value, str) and not _is_text(node.value):
        location.refuse(node, f"{shown(node.value)}: it has a lone surrogate, which is no text")
    elif isinstance(node.value, date):
        location.refuse(node, f"{node.text}: a date is not JSON; put it in quotation marks")
    elif isinstance(node.value, float) and not isfinite(node.value):
        problem = f"{node.text}: JSON has no such number; put it in quotation marks"
        location.refuse(node, problem)


def _is_text(text: str) -> bool:
    # Pydantic accepts a lone surrogate; as a key it would be stored as another text.
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _dependent_step(draft: _Draft) -> DependentStep:
    location = draft.location.inside("depends_on")
    return DependentStep(draft.name, draft.written("depends_on"), location)
