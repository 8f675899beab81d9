"""Reads the dependencies of a graph's steps as ids of jobs, and refuses cycles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from interlock.system.files import (
    Location,
    Node,
    problem_of_id,
    read_dependencies,
    shown,
)
from interlock.system.tables import Dependencies


@dataclass(frozen=True, slots=True)
class DependentStep:
    """A step and the value of its `depends_on`; the name is '' if it was refused."""

    name: str
    node: Node | None
    location: Location


@dataclass(slots=True)
class StepDependencies:
    """The dependencies of all steps of one graph."""

    graph: str
    steps: Sequence[DependentStep]
    # For each step name the dependencies inside the graph, as they are written.
    _inside: dict[str, dict[str, Node]] = field(default_factory=dict)
    _locations: dict[str, Location] = field(default_factory=dict)

    def ids(self) -> list[list[str]]:
        """Return the ids of the dependencies of each step; refuse wrong names and cycles."""
        for step in self.steps:
            if step.name and step.name not in self._inside:
                self._inside[step.name] = {}
                self._locations[step.name] = step.location
        found = [self._ids_of(step) for step in self.steps]
        for (name, other), problem in Dependencies(self._inside).refusals().items():
            self._locations[name].refuse(self._inside[name][other], problem)
        return found

    def _ids_of(self, step: DependentStep) -> list[str]:
        if step.node is None or step.node.value is None:
            return []
        return [
            *read_dependencies(step.node, step.location, lambda entry: self._id_of(entry, step))
        ]

    def _id_of(self, entry: Node, step: DependentStep) -> str:
        """Return the id of the job that an entry names, or '' if the entry is refused."""
        text = entry.value
        problem = ""
        if not isinstance(text, str):
            advice = "write a name" if text is None else "it is not text; put it in quotation marks"
            problem = f"{shown(entry.plain())}: {advice}"
        elif "/" in text and not text.startswith(f"{self.graph}/"):
            problem = problem_of_id(text)
            if not problem and text.count("/") > 1:
                problem = f"{shown(text)}: write <graph>/<step> for a job of another graph"
        else:
            return self._id_inside(text.removeprefix(f"{self.graph}/"), entry, step)
        if problem:
            step.location.refuse(entry, problem)
            return ""
        return str(text)

    def _id_inside(self, name: str, entry: Node, step: DependentStep) -> str:
        """Return the id of another step of this graph, or '' if the entry is refused."""
        if name == step.name and name:
            step.location.refuse(entry, "it depends on itself; remove that")
            return ""
        if name not in self._inside:
            meant = step.location.problems.suggestion(name, self._inside)
            step.location.refuse(entry, f"there is no step {shown(name)}{meant}")
            return ""
        if step.name:
            self._inside[step.name].setdefault(name, entry)
        return f"{self.graph}/{name}"
