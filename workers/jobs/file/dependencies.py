"""Whom each step of a graph's file waits for: names made whole, rings refused; it reads no file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from interlock.kernel.errors import InvalidIdError
from interlock.kernel.record import record_id
from interlock.workers.specs.dependencies import rings_in
from interlock.workers.specs.json_line import shown
from interlock.workers.specs.problems import Place
from interlock.workers.specs.yaml_document import Node

RING_SHOWN_MAX = 20


@dataclass(frozen=True, slots=True)
class Waiting:
    """A step and what it says of those that it waits for; the name is empty where it is wrong."""

    name: str
    node: Node | None
    place: Place


@dataclass(slots=True)
class Dependencies:
    """The dependencies of all steps of one graph."""

    graph: str
    steps: Sequence[Waiting]
    # The first step of each name, and the line where it names another step of the graph.
    _inside: dict[str, dict[str, int]] = field(default_factory=dict)
    _places: dict[str, Place] = field(default_factory=dict)

    def whole(self) -> list[list[str]]:
        """Return for each step the whole ids of its dependencies; what is wrong goes to places."""
        for step in self.steps:
            if step.name and step.name not in self._inside:
                self._inside[step.name] = {}
                self._places[step.name] = step.place
        found = [self._of(step) for step in self.steps]
        self._refuse_rings()
        return found

    def _of(self, step: Waiting) -> list[str]:
        lines: dict[str, int] = {}
        if step.node is None or step.node.value is None:
            return []
        for entry in step.place.entries(step.node):
            one = self._one(entry, step)
            if one in lines:
                problem = f"{shown(entry.value)} is there twice, first in line {lines[one]}"
                step.place.refuse(entry.line, f"{problem}; remove one")
            elif one:
                lines[one] = entry.line
        return list(lines)

    def _one(self, entry: Node, step: Waiting) -> str:
        """Return the whole id that an entry means, or nothing where it is refused."""
        text = entry.value
        problem = ""
        if not isinstance(text, str):
            advice = "write a name" if text is None else "it is no text; put it in quotation marks"
            problem = f"{shown(entry.plain())}: {advice}"
        elif "/" in text and not text.startswith(f"{self.graph}/"):
            problem = wrong_id(text)
            if not problem and text.count("/") > 1:
                problem = f"{shown(text)}: write <graph>/<step> for a job of another graph"
        else:
            return self._inner(text.removeprefix(f"{self.graph}/"), entry, step)
        if problem:
            step.place.refuse(entry.line, problem)
            return ""
        return str(text)

    def _inner(self, name: str, entry: Node, step: Waiting) -> str:
        if name == step.name and name:
            step.place.refuse(entry.line, "it depends on itself; take that out")
            return ""
        if name not in self._inside:
            meant = step.place.problems.meant(name, self._inside)
            step.place.refuse(entry.line, f"there is no step {shown(name)}{meant}")
            return ""
        if step.name:
            self._inside[step.name].setdefault(name, entry.line)
        return f"{self.graph}/{name}"

    def _refuse_rings(self) -> None:
        graph: Mapping[str, Sequence[str]] = {
            name: list(after) for name, after in self._inside.items()
        }
        for ring in rings_in(graph):
            line = self._inside[ring[0]][ring[1]]
            problem = f"{_listed(ring)} is a ring; take one out of it"
            self._places[ring[0]].refuse(line, problem)


def wrong_id(text: str) -> str:
    """Return why a text cannot be an id, or nothing."""
    try:
        record_id(text)
    except InvalidIdError as error:
        return str(error)
    return ""


def _listed(ring: Sequence[str]) -> str:
    """Return a ring as people read it, its middle left out if it is long."""
    left = len(ring) - RING_SHOWN_MAX
    half = RING_SHOWN_MAX // 2
    if left <= 0:
        return " -> ".join(ring)
    return " -> ".join([*ring[:half], f"... ({left} more) ...", *ring[-half:]])
