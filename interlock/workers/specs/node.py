"""The values of a file with their places, as the readers of YAML and of JSON return them."""

from __future__ import annotations

from typing import Any, NamedTuple

from interlock.kernel.errors import CallError

DEPTH_MAX = 16
NODES_MAX = 1_000_000
NUMBER_LENGTH_MAX = 100


class UnreadableError(CallError):
    """A text cannot be read. Correct it at line and column, which are 0 if it has no place."""

    def __init__(self, line: int, column: int, problem: str) -> None:
        super().__init__(f"line {line}: {problem}" if line else problem)
        self.line, self.column, self.problem = line, column, problem


class WrittenFloat(float):
    """A number, of which str() is the text that a person wrote; the number may have lost digits."""

    text = ""

    def __str__(self) -> str:
        return self.text


class WrittenInteger(int):
    """A whole number, of which str() is the text that a person wrote."""

    text = ""

    def __str__(self) -> str:
        return self.text


class Node(NamedTuple):
    """A value, its text as it is written, and where it is, or its key if it has one.

    Line and column count from 1. `value` is a list of nodes, a mapping of keys to nodes, or the
    Python value of a scalar. A node is a tuple because files have hundreds of thousands of them.
    """

    line: int
    column: int
    value: Any
    text: str = ""

    def holding(self, value: Any) -> Node:
        """Return a node with another value at the same place."""
        return Node(self.line, self.column, value)

    def child(self, step: Any) -> Node | None:
        """Return the entry of a list or the value of a key; pydantic names each key by its text."""
        if isinstance(self.value, list):
            return self.value[step] if isinstance(step, int) and step < len(self.value) else None
        if isinstance(self.value, dict):
            keys = [step] if step in self.value else [k for k in self.value if str(k) == step]
            return self.value[keys[0]] if keys else None
        return None

    def at(self, *steps: str | int) -> Node:
        """Return the value at a path; one that is not there is None at the place around it."""
        node = self
        for step in steps:
            node = node.child(step) or node.holding(None)
        return node

    def plain(self) -> Any:
        """Return the value without its lines."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value

    def written(self) -> Any:
        """Return the value without its lines, and each number with its text."""
        if isinstance(self.value, dict):
            return {key: node.written() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.written() for node in self.value]
        kind = {float: WrittenFloat, int: WrittenInteger}.get(type(self.value))
        if kind is None or not self.text:
            return self.value
        number = kind(self.value)
        number.text = self.text
        return number


# What is in no file.
NOWHERE = Node(0, 0, None)


def node_of(value: Any, depth: int = DEPTH_MAX) -> Node:
    """Return a value of JSON as a node without a place; below `depth` levels it is left out."""
    if isinstance(value, dict | list) and depth == 0:
        value = "..."
    elif isinstance(value, dict):
        value = {key: node_of(inner, depth - 1) for key, inner in value.items()}
    elif isinstance(value, list):
        value = [node_of(inner, depth - 1) for inner in value]
    return NOWHERE.holding(value)


def place_of(text: str, index: int) -> tuple[int, int]:
    """Return line and column of a character of a text, counted from 1."""
    return text.count("\n", 0, index) + 1, index - text.rfind("\n", 0, index)
