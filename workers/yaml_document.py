"""YAML that a person wrote, read into plain values that know their lines; it guesses nothing.

Refused is what could fill all memory or be read in two ways: aliases, tags, merges, a key twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from kernel.errors import CallError

DEPTH_MAX = 16
_MERGE = "<<"


class YamlError(CallError):
    """It is no YAML that we read. Correct it at `line`, which is 0 where none can be told."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"line {line}: {problem}" if line else problem)
        self.line, self.problem = line, problem


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """What a text says, and where it says it."""

    value: Any
    root: yaml.Node | None

    def line(self, *path: str | int) -> int:
        """Return the line of what is at a path, or of the nearest there is on the way to it."""
        node, line = self.root, 1
        for step in path:
            found = _child(node, step)
            if found is None:
                break
            node, line = found
        return line


def read_yaml(text: str) -> YamlDocument:
    """Read one document. Raises YamlError."""
    try:
        loader = _Loader(text)
        root = loader.get_single_node()
        value = None if root is None else loader.construct_document(root)
    except yaml.MarkedYAMLError as error:
        line = _line_of(error.problem_mark or error.context_mark)
        said = ", ".join(part for part in (error.context, error.problem) if part)
        raise YamlError(line, f"it is no YAML: {said}; correct it") from error
    except (yaml.YAMLError, ValueError) as error:
        first = (str(error) or type(error).__name__).partition("\n")[0]
        raise YamlError(0, f"it is no YAML: {first}; correct it") from error
    return YamlDocument(value, root)


class _Loader(yaml.SafeLoader):
    """The safe loader, within bounds."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        untyped: Any = self
        event = untyped.peek_event()
        line = _line_of(event.start_mark)
        if isinstance(event, yaml.AliasEvent):
            # A few aliases of aliases are enough to fill all memory.
            raise YamlError(line, f"the alias *{event.anchor} is not allowed; write it out")
        if tag := getattr(event, "tag", None):
            raise YamlError(line, f"the tag {tag} is not allowed; leave it out")
        self.depth += 1
        if self.depth > DEPTH_MAX:
            # Also a matter of time: the parser takes ever longer for each further bracket.
            raise YamlError(line, f"it is nested deeper than {DEPTH_MAX} levels; make it flatter")
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def compose_mapping_node(self, anchor: dict[Any, yaml.Node]) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        lines: dict[str, int] = {}
        for key, _ in node.value:
            line = _line_of(key.start_mark)
            if not isinstance(key, yaml.ScalarNode):
                raise YamlError(line, "a key is a list or a mapping; write a word")
            if key.value == _MERGE:
                raise YamlError(line, f"the merge {_MERGE} is not allowed; write it out")
            if key.value in lines:
                problem = f"{key.value!r} is there twice, first in line {lines[key.value]}"
                raise YamlError(line, f"{problem}; remove one")
            lines[key.value] = line
        return node


def _child(node: yaml.Node | None, step: str | int) -> tuple[yaml.Node, int] | None:
    """Return what a step leads to, and its line: of a key, or of an entry of a list."""
    if isinstance(node, yaml.MappingNode):
        found: Mapping[str, tuple[yaml.Node, int]] = {
            key.value: (value, _line_of(key.start_mark)) for key, value in node.value
        }
        return found.get(str(step))
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        entry: yaml.Node = node.value[step]
        return entry, _line_of(entry.start_mark)
    return None


def _line_of(mark: Any) -> int:
    """Return a mark's line as people count them, or 0."""
    line = getattr(mark, "line", None)
    return 0 if line is None else int(line) + 1
