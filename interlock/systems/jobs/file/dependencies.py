"""Reads the dependencies of a graph's steps as ids of jobs, and refuses cycles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from interlock.system.files import ID, FilePart
from interlock.system.tables import Dependencies
from interlock.system.text import one_line

_NAME_LENGTH_MAX = 60  # of one that is shown


@dataclass(slots=True)
class StepDependencies:
    """The dependencies of all steps of one graph, each with its name, '' if that was refused."""

    graph: str
    steps: Sequence[tuple[str, FilePart]]
    # For each step name the dependencies inside the graph, as they are written.
    _inside: dict[str, dict[str, FilePart]] = field(default_factory=dict)

    def ids(self) -> list[list[str]]:
        """Return the ids of the dependencies of each step; refuse wrong names and cycles."""
        self._inside |= {name: {} for name, _ in self.steps if name}
        found = [
            [*step.at("depends_on").names(partial(self._id_of, step=name))]
            for name, step in self.steps
        ]
        for (name, other), problem in Dependencies(self._inside).refusals().items():
            self._inside[name][other].refuse(problem)
        return found

    def _id_of(self, entry: FilePart, step: str) -> str:
        """Return the id of the job that an entry names, or '' if the entry is refused."""
        text = entry.value
        if not isinstance(text, str):
            advice = "write a name" if text is None else "it is not text; put it in quotation marks"
            entry.refuse(f"{entry.quoted}: {advice}")
            return ""
        if "/" not in text or text.startswith(f"{self.graph}/"):
            return self._id_inside(text.removeprefix(f"{self.graph}/"), entry, step)
        try:
            ID.read(text)
        except ValueError as refusal:
            entry.refuse(str(refusal))
            return ""
        if text.count("/") > 1:
            entry.refuse(f"{entry.quoted}: write <graph>/<step> for a job of another graph")
            return ""
        return text

    def _id_inside(self, name: str, entry: FilePart, step: str) -> str:
        """Return the id of another step of this graph, or '' if the entry is refused."""
        if name == step and name:
            entry.refuse("it depends on itself; remove that")
            return ""
        if name not in self._inside:
            shown = one_line(repr(name), length_max=_NAME_LENGTH_MAX)
            entry.refuse(f"there is no step {shown}{entry.suggestion(name, self._inside)}")
            return ""
        if step:
            self._inside[step].setdefault(name, entry)
        return f"{self.graph}/{name}"
