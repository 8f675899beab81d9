"""Reads and checks a whole graph of jobs that a person wrote, in YAML or JSON.

Every problem that the file alone can show is reported at once. The store is not read: whether jobs
of other graphs exist is checked when the graph is created.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from interlock.kernel.errors import CallError, InvalidPayloadError
from interlock.kernel.store.codec import encode
from interlock.workers.jobs.file.dependencies import Dependencies, DependentStep, problem_of_id
from interlock.workers.jobs.file.field_reader import PartialPayload, merged, read_fields
from interlock.workers.jobs.file.fields import (
    DEFAULTS,
    GRAPH,
    INHERITED,
    STEP,
    graph_payload,
    job_payload,
)
from interlock.workers.specs.json_document import read_json
from interlock.workers.specs.json_line import shown
from interlock.workers.specs.problems import Location, Problem, Problems
from interlock.workers.specs.values import PRIORITY_DEFAULT
from interlock.workers.specs.yaml_document import Node, UnreadableError, read_text, read_yaml

BYTES_MAX = 8 * 1024 * 1024
STEPS_MAX = 20_000
TOP_FIELDS = ("graph", *GRAPH, "defaults", "steps")
# `name` and `depends_on` are not read by STEP.
STEP_FIELDS = ("name", "depends_on", *STEP)


class GraphFileError(CallError):
    """A graph's file has problems, and nothing was written. Correct the lines that it names."""

    def __init__(self, path: Path, problems: Sequence[Problem]) -> None:
        lines = [
            f"{path}:{problem.line}: {problem.text}" if problem.line else f"{path}: {problem.text}"
            for problem in problems
        ]
        super().__init__("\n".join(lines))
        self.path, self.problems = path, tuple(problems)


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
    """Read a graph from a file of YAML, or of JSON if its name ends so. Raises GraphFileError."""
    advice = "split it, steps may name jobs of other graphs"
    try:
        text = read_text(path, bytes_max=BYTES_MAX, advice=advice)
    except UnreadableError as error:
        raise GraphFileError(path, [Problem(error.line, error.problem)]) from error
    return parse_graph(text, path)


def parse_graph(text: str, path: Path) -> GraphFile:
    """Read a graph from the text of a file with this path. Raises GraphFileError."""
    try:
        root = read_json(text) if path.suffix.lower() == ".json" else read_yaml(text).root
    except UnreadableError as error:
        raise GraphFileError(path, [Problem(error.line, error.problem)]) from error
    problems = Problems()
    found = _GraphReader(path, problems).graph(root or Node(1, None))
    if problems.count:
        raise GraphFileError(path, problems.listed())
    return found


@dataclass(frozen=True, slots=True)
class _Draft:
    """A step of which only the name has been read; the name is '' if it was refused."""

    name: str
    node: Node
    location: Location
    fields: Mapping[str, Node]


class _GraphReader:
    """Reads one file, and adds everything that is wrong with it to the problems."""

    def __init__(self, path: Path, problems: Problems) -> None:
        self._path, self._problems = path, problems
        self._folder = str(path.parent.resolve())
        self._name = ""

    def graph(self, root: Node) -> GraphFile:
        """Return the graph, which is valid only if no problem was found."""
        location = Location(self._problems)
        top = location.fields(root, TOP_FIELDS)
        if not isinstance(root.value, dict):
            return GraphFile(self._path, "", {}, ())
        nothing = Node(root.line, None)
        self._name = self._name_of("graph", top.get("graph", nothing), location)
        own = Node(root.line, {key: node for key, node in top.items() if key in GRAPH})
        payload = merged(read_fields(own, GRAPH, location))
        shared = self._shared(payload, top.get("defaults", nothing))
        drafts = self._drafts(top.get("steps", nothing))
        dependent = [_dependent_step(draft) for draft in drafts]
        dependencies = Dependencies(self._name, dependent).ids()
        steps = [
            # Without a valid name of the graph no id is complete.
            self._step(
                draft, shared | {"depends_on": ids if self._name else []}, payload.get("dir")
            )
            for draft, ids in zip(drafts, dependencies, strict=True)
        ]
        own_payload = {k: value for k, value in payload.items() if k not in ("folder", "dir")}
        checked = self._checked(graph_payload, own_payload, root.line, location)
        return GraphFile(self._path, self._name, checked, tuple(steps))

    def _shared(self, graph: PartialPayload, defaults: Node) -> PartialPayload:
        """Return the values of a step that sets none itself."""
        inherited = {"folder": "."} | {name: graph[name] for name in INHERITED if name in graph}
        if defaults.value is None:
            return inherited
        location = Location(self._problems, "defaults")
        return merged(inherited, read_fields(defaults, DEFAULTS, location))

    def _drafts(self, node: Node) -> list[_Draft]:
        """Return the steps, and refuse names that are there twice."""
        location = Location(self._problems, path="steps")
        if not isinstance(node.value, list) or not node.value:
            location.refuse(node.line, "write a list of at least one step")
            return []
        if len(node.value) > STEPS_MAX:
            problem = f"these are {len(node.value)}, at most {STEPS_MAX} are allowed"
            location.refuse(node.line, f"{problem}; split it, steps may name jobs of other graphs")
            return []
        found = [self._draft(index, entry) for index, entry in enumerate(node.value)]
        lines: dict[str, int] = {}
        for draft in found:
            if draft.name in lines:
                problem = f"line {lines[draft.name]} has a step of this name; choose another"
                draft.location.inside("name").refuse(draft.fields["name"].line, problem)
            elif draft.name:
                lines[draft.name] = draft.fields["name"].line
        return found

    def _draft(self, index: int, node: Node) -> _Draft:
        numbered = Location(self._problems, f"step {index + 1}")
        name = ""
        if isinstance(node.value, dict):
            name = self._name_of("name", node.value.get("name", Node(node.line, None)), numbered)
        location = Location(self._problems, f"step {name!r}") if name else numbered
        return _Draft(name, node, location, location.fields(node, STEP_FIELDS))

    def _step(self, draft: _Draft, shared: PartialPayload, parent: str | None) -> Step:
        """Return a step with the shared values, and with a directory in that of the graph."""
        before, line = self._problems.count, draft.node.line
        own = {key: node for key, node in draft.fields.items() if key in STEP}
        executors = [
            key for key in ("worker", "phases") if key in own and own[key].value is not None
        ]
        if len(executors) > 1:
            draft.location.refuse(own["phases"].line, "it has worker and phases; remove one")
        elif not executors and isinstance(draft.node.value, dict):
            draft.location.refuse(line, "say who works: `worker: <command>`, or `phases`")
        payload = merged(shared, read_fields(Node(line, own), STEP, draft.location))
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
            payload = self._checked(job_payload, payload, line, draft.location)
        return Step(draft.name, priority, line, payload)

    def _checked(
        self,
        check: Callable[[PartialPayload], PartialPayload],
        payload: PartialPayload,
        line: int,
        location: Location,
    ) -> PartialPayload:
        """Return the canonical payload; refuse one that is invalid as a whole or too large."""
        try:
            checked = check(payload)
            encode(checked, "it")
        except ValidationError as refusal:
            for error in refusal.errors(include_url=False):
                part = location.inside(".".join(map(str, error["loc"])))
                part.refuse(line, error["msg"].removeprefix("Value error, "))
        except InvalidPayloadError as refusal:
            location.refuse(line, "; ".join(refusal.problems))
        else:
            return checked
        return {}

    def _name_of(self, key: str, node: Node, location: Location) -> str:
        """Return a name, which can be a part of an id, or '' if it is refused."""
        value = node.value
        if value is None:
            location.refuse(node.line, f"name it: `{key}: <name>`")
            return ""
        if not isinstance(value, str):
            problem = f"{shown(node.plain())}: it is no text; put it in quotation marks"
        elif "/" in value:
            problem = f"{shown(value)}: a name has no slash; remove it"
        else:
            problem = problem_of_id(f"{self._name}/{value}" if self._name else value)
            if not problem:
                return value
        location.inside(key).refuse(node.line, problem)
        return ""

    def _absolute(self, path: str, *inside: str) -> str:
        """Return an absolute path; a relative one is relative to the folder of the file."""
        # An absolute path is kept as it is written, so that an exported graph reads the same.
        whole = os.path.join(path, *inside)  # noqa: PTH118 - a Path would normalize it
        if os.path.isabs(whole):  # noqa: PTH117
            return whole
        return os.path.normpath(os.path.join(self._folder, whole))  # noqa: PTH118


def _dependent_step(draft: _Draft) -> DependentStep:
    location = draft.location.inside("depends_on")
    return DependentStep(draft.name, draft.fields.get("depends_on"), location)
