"""Reads JSON into the same nodes with lines as YAML.

The YAML reader cannot read every JSON file: it refuses a surrogate pair of two escapes, and a tab
between values.
"""

from __future__ import annotations

import json
import re

from interlock.workers.specs.json_line import shown
from interlock.workers.specs.node import (
    DEPTH_MAX,
    NODES_MAX,
    NUMBER_LENGTH_MAX,
    Node,
    UnreadableError,
)

_SPACE = re.compile(r"[ \t\n\r]*")


def read_json(text: str) -> Node:
    """Read one value. Raises UnreadableError."""
    reader = _JsonReader(text)
    root = reader.node(depth=1)
    reader.end()
    return root


class _JsonReader:
    """Goes through a text once; Python's own JSON decoder reads texts, numbers and constants."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = self._counted = 0
        self._line, self._before = 1, -1
        self._nodes = 0
        self._scalar = json.JSONDecoder(parse_constant=_no_number).raw_decode

    def node(self, *, depth: int) -> Node:
        """Read the value at the current position."""
        first = self._next()
        place = self._place()
        self._nodes += 1
        if self._nodes > NODES_MAX:
            raise UnreadableError(*place, f"it has more than {NODES_MAX} values; split it")
        if depth > DEPTH_MAX:
            problem = f"it is nested deeper than {DEPTH_MAX} levels; make it flatter"
            raise UnreadableError(*place, problem)
        if first == "[":
            return Node(*place, self._list(depth))
        if first == "{":
            return Node(*place, self._mapping(depth))
        start = self._at
        try:
            value, self._at = self._scalar(self._text, start)
        except json.JSONDecodeError as error:
            raise self._error(error.msg.removesuffix(" at")) from error
        except ValueError as error:
            raise self._error(str(error)) from error
        text = self._text[start : self._at]
        if first in "-0123456789" and len(text) > NUMBER_LENGTH_MAX:
            raise self._error(f"a number of {len(text)} characters is too long")
        return Node(*place, value, value if isinstance(value, str) else text)

    def end(self) -> None:
        """Check that nothing follows."""
        if self._next():
            raise self._error(f"{shown(self._text[self._at : self._at + 20])} comes after its end")

    def _list(self, depth: int) -> list[Node]:
        found: list[Node] = []
        while self._more("]", first=not found):
            found.append(self.node(depth=depth + 1))
        return found

    def _mapping(self, depth: int) -> dict[str, Node]:
        found: dict[str, Node] = {}
        while self._more("}", first=not found):
            if self._next() != '"':
                raise self._error("expected a name in double quotes")
            line, column, key, _ = self.node(depth=depth + 1)
            if key in found:
                problem = f"{shown(key)} is there twice, first in line {found[key].line}"
                raise UnreadableError(line, column, f"{problem}; remove one")
            self._take(":")
            node = self.node(depth=depth + 1)
            found[key] = Node(line, column, node.value, node.text)
        return found

    def _more(self, closing: str, *, first: bool) -> bool:
        """Step over the opening bracket or a comma; return False after the closing bracket."""
        if first:
            self._at += 1
        if self._next() == closing:
            self._at += 1
            return False
        if not first:
            self._take(",")
        return True

    def _take(self, sign: str) -> None:
        if self._next() != sign:
            raise self._error(f"expected {sign!r}")
        self._at += 1

    def _next(self) -> str:
        """Skip white space and return the next character, or '' at the end."""
        space = _SPACE.match(self._text, self._at)
        assert space, "the pattern also matches where there is no space"
        self._at = space.end()
        return self._text[self._at : self._at + 1]

    def _place(self) -> tuple[int, int]:
        self._line += self._text.count("\n", self._counted, self._at)
        # Only what is new is searched: a file of one long line would take hours otherwise.
        self._before = max(self._before, self._text.rfind("\n", self._counted, self._at))
        self._counted = self._at
        return self._line, self._at - self._before

    def _error(self, problem: str) -> UnreadableError:
        return UnreadableError(*self._place(), f"it is not JSON: {problem}; correct it")


def _no_number(constant: str) -> float:
    raise ValueError(f"{constant} is not a number in JSON")
