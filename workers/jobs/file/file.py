"""A whole graph of jobs that a person wrote, in YAML or JSON, read and checked; it writes nothing.

All that a look at the file alone can tell is told at once. Whether the jobs of other graphs exist
is for others to see.
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
from interlock.workers.jobs.file.dependencies import Dependencies, Waiting, wrong_id
from interlock.workers.jobs.file.field import Parts, merged, read_fields
from interlock.workers.jobs.file.fields import (
    DEFAULTS,
    GRAPH,
    INHERITED,
    STEP,
    graph_as_born,
    job_as_born,
)
from interlock.workers.specs.json_document import read_json
from interlock.workers.specs.json_line import shown
from interlock.workers.specs.problems import Place, Problem, Problems
from interlock.workers.specs.values import PRIORITY_DEFAULT
from interlock.workers.specs.yaml_document import Node, UnreadableError, read_text, read_yaml

BYTES_MAX = 8 * 1024 * 1024
STEPS_MAX = 20_000
TOP = ("graph", *GRAPH, "defaults", "steps")
# The first two are read by themselves.
STEP_WORDS = ("name", "depends_on", *STEP)


class GraphFileError(CallError):
    """A graph cannot be taken as it is, and nothing was written. Correct the lines it names."""

    def __init__(self, path: Path, problems: Sequence[Problem]) -> None:
        at = [f"{path}:{one.line}" if one.line else str(path) for one in problems]
        told = [f"{where}: {one.text}" for where, one in zip(at, problems, strict=True)]
        super().__init__("\n".join(told))
        self.path, self.problems = path, tuple(problems)


@dataclass(frozen=True, slots=True)
class Step:
    """One job of a graph: its name there, and what it is born from, but for the machine's name.

    `depends_on` has whole ids, folder and directory are absolute. The payload leaves out what is
    as it always is.
    """

    name: str
    priority: int
    line: int
    payload: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class GraphFile:
    """A graph as it is written. All is checked of it that a look at the file alone can tell.

    The payload has what all jobs share: description, slots, limits, remind_s, stewards, on_cancel;
    it leaves out what is as it always is.
    """

    path: Path
    name: str
    payload: Mapping[str, Any]
    steps: tuple[Step, ...]


def read_graph(path: Path) -> GraphFile:
    """Read a graph from a file of YAML, or of JSON if it is called so. Raises GraphFileError."""
    advice = "split it, steps may name jobs of other graphs"
    try:
        text = read_text(path, bytes_max=BYTES_MAX, advice=advice)
    except UnreadableError as error:
        raise GraphFileError(path, [Problem(error.line, error.problem)]) from error
    return graph_of(text, path)


def graph_of(text: str, path: Path) -> GraphFile:
    """Read a graph from what is, or would be, in a file. Raises GraphFileError."""
    try:
        root = read_json(text) if path.suffix.lower() == ".json" else read_yaml(text).root
    except UnreadableError as error:
        raise GraphFileError(path, [Problem(error.line, error.problem)]) from error
    problems = Problems()
    found = _Reader(path, problems).graph(root or Node(1, None))
    if problems.count:
        raise GraphFileError(path, problems.listed())
    return found


@dataclass(frozen=True, slots=True)
class _Draft:
    """A step of which no more is read than its name, which is empty where it is wrong."""

    name: str
    node: Node
    place: Place
    fields: Mapping[str, Node]


class _Reader:
    """One file; all that is wrong with it goes to the problems."""

    def __init__(self, path: Path, problems: Problems) -> None:
        self._path, self._problems = path, problems
        self._folder = str(path.parent.resolve())
        self._name = ""

    def graph(self, root: Node) -> GraphFile:
        """Return the graph, which counts only if no problem was found."""
        place = Place(self._problems)
        top = place.fields(root, TOP)
        if not isinstance(root.value, dict):
            return GraphFile(self._path, "", {}, ())
        nothing = Node(root.line, None)
        self._name = self._word("graph", top.get("graph", nothing), place)
        own = Node(root.line, {word: node for word, node in top.items() if word in GRAPH})
        parts = merged(read_fields(own, GRAPH, place))
        shared = self._shared(parts, top.get("defaults", nothing))
        drafts = self._drafts(top.get("steps", nothing))
        waiting = [_waiting(draft) for draft in drafts]
        after = Dependencies(self._name, waiting).whole()
        steps = [
            # Without the graph's name no id is whole.
            self._step(draft, shared | {"depends_on": ids if self._name else []}, parts.get("dir"))
            for draft, ids in zip(drafts, after, strict=True)
        ]
        payload = {born: value for born, value in parts.items() if born not in ("folder", "dir")}
        payload = self._born(graph_as_born, payload, root.line, place)
        return GraphFile(self._path, self._name, payload, tuple(steps))

    def _shared(self, parts: Parts, defaults: Node) -> Parts:
        """Return what a step has if it does not say otherwise."""
        of_graph = {"folder": "."} | {born: parts[born] for born in INHERITED if born in parts}
        if defaults.value is None:
            return of_graph
        place = Place(self._problems, "defaults")
        return merged(of_graph, read_fields(defaults, DEFAULTS, place))

    def _drafts(self, node: Node) -> list[_Draft]:
        """Return the steps; their names differ if all is well."""
        place = Place(self._problems, part="steps")
        if not isinstance(node.value, list) or not node.value:
            place.refuse(node.line, "write a list of at least one step")
            return []
        if len(node.value) > STEPS_MAX:
            problem = f"these are {len(node.value)}, at most {STEPS_MAX} are allowed"
            place.refuse(node.line, f"{problem}; split it, steps may name jobs of other graphs")
            return []
        found = [self._draft(index, entry) for index, entry in enumerate(node.value)]
        lines: dict[str, int] = {}
        for draft in found:
            if draft.name in lines:
                problem = f"line {lines[draft.name]} has a step of this name; choose another"
                draft.place.inside("name").refuse(draft.fields["name"].line, problem)
            elif draft.name:
                lines[draft.name] = draft.fields["name"].line
        return found

    def _draft(self, index: int, node: Node) -> _Draft:
        numbered = Place(self._problems, f"step {index + 1}")
        name = ""
        if isinstance(node.value, dict):
            name = self._word("name", node.value.get("name", Node(node.line, None)), numbered)
        place = Place(self._problems, f"step {name!r}") if name else numbered
        return _Draft(name, node, place, place.fields(node, STEP_WORDS))

    def _step(self, draft: _Draft, shared: Parts, above: str | None) -> Step:
        """Return a step; it inherits what is shared, and a directory in the one above."""
        before, line = self._problems.count, draft.node.line
        own = {word: node for word, node in draft.fields.items() if word in STEP}
        doers = [
            word for word in ("worker", "phases") if word in own and own[word].value is not None
        ]
        if len(doers) > 1:
            draft.place.refuse(own["phases"].line, "it has worker and phases; take one out")
        elif not doers and isinstance(draft.node.value, dict):
            draft.place.refuse(line, "say who works: `worker: <command>`, or `phases`")
        parts = merged(shared, read_fields(Node(line, own), STEP, draft.place))
        priority = parts.pop("priority", PRIORITY_DEFAULT)
        if "folder" in parts:
            parts["folder"] = self._here(parts["folder"])
        if "dir" in parts:
            parts["dir"] = self._here(parts["dir"])
        elif above is not None and "dir" not in own:
            parts["dir"] = self._here(above, draft.name)
        sound = self._problems.count == before and draft.name
        payload = self._born(job_as_born, parts, line, draft.place) if sound else {}
        return Step(draft.name, priority, line, payload)

    def _born(
        self, as_born: Callable[[Parts], Parts], parts: Parts, line: int, place: Place
    ) -> Parts:
        """Return what the parts are together, and refuse it if it is no whole or too large."""
        try:
            payload = as_born(parts)
            encode(payload, "it")
        except ValidationError as refusal:
            for one in refusal.errors(include_url=False):
                told = place.inside(".".join(map(str, one["loc"])))
                told.refuse(line, one["msg"].removeprefix("Value error, "))
        except InvalidPayloadError as refusal:
            place.refuse(line, "; ".join(refusal.problems))
        else:
            return payload
        return {}

    def _word(self, word: str, node: Node, place: Place) -> str:
        """Return a name, which can be a part of an id, or nothing where it is refused."""
        value = node.value
        if value is None:
            place.refuse(node.line, f"name it: `{word}: <name>`")
            return ""
        if not isinstance(value, str):
            problem = f"{shown(node.plain())}: it is no text; put it in quotation marks"
        elif "/" in value:
            problem = f"{shown(value)}: a slash is for parts; leave it out"
        else:
            problem = wrong_id(f"{self._name}/{value}" if self._name else value)
            if not problem:
                return value
        place.inside(word).refuse(node.line, problem)
        return ""

    def _here(self, path: str, *inside: str) -> str:
        """Return a path; a relative one is seen from the file's folder, an absolute one stays."""
        # An absolute one must come back from a written graph as it went, so that none is a Path.
        whole = os.path.join(path, *inside)  # noqa: PTH118
        if os.path.isabs(whole):  # noqa: PTH117
            return whole
        return os.path.normpath(os.path.join(self._folder, whole))  # noqa: PTH118


def _waiting(draft: _Draft) -> Waiting:
    return Waiting(draft.name, draft.fields.get("depends_on"), draft.place.inside("depends_on"))
