"""All that is wrong with a file, each thing with its line; it raises nothing."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from interlock.workers.specs.json_line import shown
from interlock.workers.specs.yaml_document import Node

PROBLEMS_MAX = 10_000
# A word is compared with each that is known: too much for twenty thousand unknown ones.
COMPARED_MAX = 100_000
_NAME_LENGTH_MAX = 60


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, as a sentence, and its line; 0 where none can be told."""

    line: int
    text: str


@dataclass(slots=True)
class Problems:
    """What was found so far. Beyond a number that nobody would read it is only counted."""

    count: int = 0
    _kept: list[Problem] = field(default_factory=list)
    _compared: int = 0

    def add(self, line: int, text: str) -> None:
        """Note a problem."""
        self.count += 1
        if self.count <= PROBLEMS_MAX:
            self._kept.append(Problem(line, text))

    def listed(self) -> tuple[Problem, ...]:
        """Return them in the order of their lines."""
        ordered = sorted(self._kept, key=lambda problem: problem.line)
        left = self.count - len(ordered)
        more = [Problem(0, f"there are {left} more problems; correct these first")] if left else []
        return (*ordered, *more)

    def meant(self, word: str, known: Collection[str]) -> str:
        """Return a question after the known word that is nearest, or nothing."""
        self._compared += len(known)
        if self._compared > COMPARED_MAX:
            return ""
        nearest = get_close_matches(word[:200], known, n=1)
        return f"; did you mean {nearest[0]!r}?" if nearest else ""


@dataclass(frozen=True, slots=True)
class Place:
    """A part of a file, as people are told of it, and where its problems go."""

    problems: Problems
    whose: str = ""
    part: str = ""

    def inside(self, part: str | int) -> Place:
        """Return the place of a part of this one."""
        name = str(part)
        if not name.isprintable() or len(name) > _NAME_LENGTH_MAX:
            name = shown(name)
        return Place(self.problems, self.whose, f"{self.part}.{name}" if self.part else name)

    def refuse(self, line: int, problem: str) -> None:
        """Note what is wrong here."""
        where = [one for one in (self.whose, self.part) if one]
        self.problems.add(line, ": ".join([*where, problem]))

    def fields(self, node: Node, known: Collection[str]) -> dict[str, Node]:
        """Return the fields that are written here; whatever else is written is refused."""
        if not isinstance(node.value, dict):
            told = f"{shown(node.plain())}: write lines of the form key: value"
            self.refuse(node.line, told)
            return {}
        for key, inner in node.value.items():
            if not isinstance(key, str):
                self.refuse(inner.line, f"the key {shown(key)} is no text; {_listed(known)}")
            elif key not in known:
                meant = self.problems.meant(key, known)
                self.refuse(inner.line, f"{shown(key)} is no field here; {_listed(known)}{meant}")
        return {key: inner for key, inner in node.value.items() if key in known}

    def entries(self, node: Node) -> list[Node]:
        """Return the entries of a list."""
        if isinstance(node.value, list):
            return node.value
        self.refuse(node.line, f"{shown(node.plain())}: write a list")
        return []


def node_within(node: Node, path: tuple[Any, ...]) -> Node:
    """Return what is at a path inside, or the nearest on the way to it."""
    for step in path:
        try:
            node = node.value[step]
        except (LookupError, TypeError):
            break
    return node


def _listed(known: Collection[str]) -> str:
    return f"known: {', '.join(known)}"
