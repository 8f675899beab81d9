"""Collects everything that is wrong with a file, each problem with its line."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from interlock.workers.specs.json_line import shown
from interlock.workers.specs.yaml_document import Node

PROBLEMS_MAX = 10_000
# A misspelt name is compared with every known name; twenty thousand of them would take too long.
COMPARISONS_MAX = 100_000
_NAME_LENGTH_MAX = 60


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem as a sentence, and its line; the line is 0 if the problem has none."""

    line: int
    text: str


@dataclass(slots=True)
class Problems:
    """The problems found so far. Beyond PROBLEMS_MAX they are counted and not kept."""

    count: int = 0
    _kept: list[Problem] = field(default_factory=list)
    _compared: int = 0

    def add(self, line: int, text: str) -> None:
        """Add a problem."""
        self.count += 1
        if self.count <= PROBLEMS_MAX:
            self._kept.append(Problem(line, text))

    def listed(self) -> tuple[Problem, ...]:
        """Return the problems in the order of their lines."""
        ordered = sorted(self._kept, key=lambda problem: problem.line)
        left = self.count - len(ordered)
        more = [Problem(0, f"there are {left} more problems; correct these first")] if left else []
        return (*ordered, *more)

    def suggestion(self, name: str, known: Collection[str]) -> str:
        """Return "did you mean ...?" with the known name that is most similar, or ''."""
        self._compared += len(known)
        if self._compared > COMPARISONS_MAX:
            return ""
        nearest = get_close_matches(name[:200], known, n=1)
        return f"; did you mean {nearest[0]!r}?" if nearest else ""


@dataclass(frozen=True, slots=True)
class Location:
    """A part of a file, named as its author knows it, and the list that gets its problems.

    `item` is for example "step 'build'", and `path` the field inside the item: "limits.cost".
    """

    problems: Problems
    item: str = ""
    path: str = ""

    def inside(self, name: str | int) -> Location:
        """Return the location of a field or of a list entry of this one."""
        text = str(name)
        if not text.isprintable() or len(text) > _NAME_LENGTH_MAX:
            text = shown(text)
        return Location(self.problems, self.item, f"{self.path}.{text}" if self.path else text)

    def refuse(self, line: int, problem: str) -> None:
        """Add a problem of this location."""
        where = [name for name in (self.item, self.path) if name]
        self.problems.add(line, ": ".join([*where, problem]))

    def fields(self, node: Node, known: Collection[str]) -> dict[str, Node]:
        """Return the known fields of a mapping; every other field is refused."""
        if not isinstance(node.value, dict):
            problem = f"{shown(node.plain())}: write lines of the form key: value"
            self.refuse(node.line, problem)
            return {}
        for key, inner in node.value.items():
            if not isinstance(key, str):
                self.refuse(inner.line, f"the key {shown(key)} is no text; {_listed(known)}")
            elif key not in known:
                meant = self.problems.suggestion(key, known)
                self.refuse(inner.line, f"{shown(key)} is no field here; {_listed(known)}{meant}")
        return {key: inner for key, inner in node.value.items() if key in known}

    def entries(self, node: Node) -> list[Node]:
        """Return the entries of a list."""
        if isinstance(node.value, list):
            return node.value
        self.refuse(node.line, f"{shown(node.plain())}: write a list")
        return []


def node_within(node: Node, path: tuple[Any, ...]) -> Node:
    """Return the node at a path inside another, or the last one on the way that exists."""
    for step in path:
        try:
            node = node.value[step]
        except (LookupError, TypeError):
            break
    return node


def _listed(known: Collection[str]) -> str:
    return f"known: {', '.join(known)}"
