"""Collects everything that is wrong with a file, each problem with its line."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from interlock.kernel.errors import CallError
from interlock.workers.specs.json_line import shown
from interlock.workers.specs.node import Node

PROBLEMS_MAX = 10_000
# A misspelt name is compared with every known name; twenty thousand of them would take too long.
COMPARISONS_MAX = 100_000
_NAME_LENGTH_MAX = 60
_OF_DATA_SHOWN_MAX = 10


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem: its place, the part of the file that has it, and what to write instead.

    Line and column are 0 if the problem has no place. The part is for example "step 'build':
    limits.cost"; it is '' for the whole file.
    """

    line: int
    column: int
    part: str
    advice: str

    @property
    def text(self) -> str:
        """Return the problem as a sentence."""
        return f"{self.part}: {self.advice}" if self.part else self.advice


class FileError(CallError):
    """A file that a person wrote has problems, and nothing was created from it.

    Correct the lines that the message names. Data that are in no file have no lines.
    """

    def __init__(self, path: Path | None, problems: Sequence[Problem]) -> None:
        places = [f":{each.line}:{each.column}" if each.line else "" for each in problems]
        texts = [each.text for each in problems]
        if path is None:
            super().__init__("; ".join(texts[:_OF_DATA_SHOWN_MAX]))
        else:
            super().__init__("\n".join(map(f"{path}{{}}: {{}}".format, places, texts)))
        self.path, self.problems = path, tuple(problems)

    @classmethod
    def of_one(cls, path: Path, problem: str, line: int = 0, column: int = 1) -> FileError:
        """Return the error of a file with one problem, at a place or, with line 0, as a whole."""
        return cls(path, [Problem(line, column if line else 0, "", problem)])


@dataclass(slots=True)
class Problems:
    """The problems found in a file so far. Beyond PROBLEMS_MAX they are counted and not kept."""

    path: Path | None
    count: int = 0
    _kept: list[Problem] = field(default_factory=list)
    _compared: int = 0

    def clear(self) -> None:
        """Forget the problems."""
        self.count, self._compared = 0, 0
        self._kept.clear()

    def add(self, problem: Problem) -> None:
        """Add a problem."""
        self.count += 1
        if self.count <= PROBLEMS_MAX:
            self._kept.append(problem)

    def error(self) -> FileError:
        """Return the error that lists the problems in the order of their lines."""
        ordered = sorted(self._kept, key=lambda problem: (problem.line, problem.column))
        if left := self.count - len(ordered):
            ordered.append(
                Problem(0, 0, "", f"there are {left} more problems; correct these first")
            )
        return FileError(self.path, ordered)

    def raise_if_any(self) -> None:
        """Raise FileError if there is a problem."""
        if self.count:
            raise self.error()

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

    `item` is for example "step 'build'", and `path` the field inside the item: "limits.cost", or
    "after (entry 1)" for the first entry of a list.
    """

    problems: Problems
    item: str = ""
    path: str = ""

    def inside(self, *steps: str | int) -> Location:
        """Return the location of a field or list entry of this one, at a path of one or more."""
        path = self.path
        for step in steps:
            if isinstance(step, int):
                path = f"{path} (entry {step + 1})".lstrip()
                continue
            text = step
            if not text.isprintable() or len(text) > _NAME_LENGTH_MAX:
                text = shown(text)
            path = f"{path}.{text}" if path else text
        return Location(self.problems, self.item, path)

    def refuse(self, node: Node, advice: str) -> None:
        """Add a problem of this location, at the place of the node."""
        part = ": ".join(name for name in (self.item, self.path) if name)
        self.problems.add(Problem(node.line, node.column, part, advice))

    def refuse_key(self, node: Node, key: Any, known: Collection[str]) -> None:
        """Refuse a field that a mapping cannot have; `node` is the value of the key."""
        if isinstance(key, str):
            # The list of all fields is long; it would hide the one that is meant.
            others = f"; {_listed(known)}" if known else "; take it out"
            hint = self.problems.suggestion(key, known) or others
            self.refuse(node, f"{shown(key)} is not a field here{hint}")
        else:
            self.refuse(node, f"the key {shown(key)} is not text; {_listed(known)}")


def _listed(known: Collection[str]) -> str:
    return f"known: {', '.join(known)}"
