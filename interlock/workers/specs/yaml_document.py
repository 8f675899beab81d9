"""Reads YAML that a person wrote into nodes, which are values with their lines.

The reader refuses everything that could fill the memory or that could be read in two ways: aliases,
tags, merges, a repeated key, numbers of base 60 and 8.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from interlock.workers.specs.node import (
    DEPTH_MAX,
    NODES_MAX,
    NUMBER_LENGTH_MAX,
    Node,
    UnreadableError,
    place_of,
)

# The parser in C reports the same lines as the one in Python, which takes seconds for a file of
# ten thousand steps.
LOADER: Any = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
_SHOWN_LENGTH_MAX = 60
_CORE = "tag:yaml.org,2002:"
_TYPES = frozenset(f"{_CORE}{name}" for name in ("null", "bool", "int", "float", "timestamp"))
_NUMBERS = frozenset(f"{_CORE}{name}" for name in ("int", "float"))
# Of the two parsers, one drops a byte order mark inside a text, and the other keeps it.
_STRANGE = re.compile(yaml.reader.Reader.NON_PRINTABLE.pattern + "|\ufeff")
_TWO_READINGS = re.compile(r"[-+]?(?:0[0-7_]+|[^:]*:.*)")


def read_yaml(text: str) -> Node:
    """Read one document. Raises UnreadableError."""
    if strange := _STRANGE.search(text):
        problem = f"it is not YAML: unacceptable character #x{ord(strange.group()):04x}"
        raise UnreadableError(*place_of(text, strange.start()), f"{problem}; take it out")
    # The parser in C counts the end of a text as one more line.
    last = max(1, len(text.splitlines()))
    try:
        return _Composer(LOADER(text), last).root()
    except yaml.MarkedYAMLError as error:
        place = _place_of(error.problem_mark or error.context_mark, last)
        problem = ", ".join(part for part in (error.context, error.problem) if part)
        raise UnreadableError(*place, f"it is not YAML: {problem}; correct it") from error
    except yaml.YAMLError as error:
        first = (str(error) or type(error).__name__).partition("\n")[0]
        raise UnreadableError(0, 0, f"it is not YAML: {first}; correct it") from error


class _Composer:
    """Builds nodes from the events of a parser, up to the limits of depth and number."""

    def __init__(self, loader: Any, last: int) -> None:
        self._loader, self._last = loader, last
        self._nodes = 0

    def root(self) -> Node:
        """Return the only document of the text; it is null if the text is empty."""
        take, seen = self._loader.get_event, self._loader.check_event
        take()
        if seen(yaml.StreamEndEvent):
            return Node(1, 1, None)
        take()
        root = self._node(take(), depth=1)
        take()
        if not seen(yaml.StreamEndEvent):
            place = _place_of(take().start_mark, self._last)
            problem = "expected a single document, but this begins another one"
            raise UnreadableError(*place, f"it is not YAML: {problem}; make files of them")
        return root

    def _node(self, event: Any, *, depth: int) -> Node:
        place = _place_of(event.start_mark, self._last)
        if isinstance(event, yaml.AliasEvent):
            # A few aliases of aliases are enough to fill the memory.
            problem = f"the alias *{_short(event.anchor or '')} is not allowed; write it out"
            raise UnreadableError(*place, problem)
        if event.tag:
            problem = f"the tag {_short(event.tag)} is not allowed; leave it out"
            raise UnreadableError(*place, problem)
        self._nodes += 1
        if self._nodes > NODES_MAX:
            raise UnreadableError(*place, f"it has more than {NODES_MAX} values; split it")
        if depth > DEPTH_MAX:
            # The limit also bounds the time: the parser gets slower with each open bracket.
            problem = f"it is nested deeper than {DEPTH_MAX} levels; make it flatter"
            raise UnreadableError(*place, problem)
        if isinstance(event, yaml.ScalarEvent):
            return Node(*place, self._scalar(event, place), event.value)
        if isinstance(event, yaml.SequenceStartEvent):
            return Node(*place, self._list(depth))
        return Node(*place, self._mapping(depth))

    def _list(self, depth: int) -> list[Node]:
        found: list[Node] = []
        while not isinstance(event := self._loader.get_event(), yaml.SequenceEndEvent):
            found.append(self._node(event, depth=depth + 1))
        return found

    def _mapping(self, depth: int) -> dict[Any, Node]:
        found: dict[Any, Node] = {}
        lines: dict[str, int] = {}
        while not isinstance(event := self._loader.get_event(), yaml.MappingEndEvent):
            line, column, key, text = self._node(event, depth=depth + 1)
            if isinstance(key, list | dict):
                raise UnreadableError(line, column, "a key is a list or a mapping; write a word")
            node = self._node(self._loader.get_event(), depth=depth + 1)
            if text in lines or key in found:
                first = lines[text] if text in lines else found[key].line
                problem = f"'{_short(text)}' is there twice, first in line {first}; remove one"
                raise UnreadableError(line, column, problem)
            lines[text] = line
            found[key] = Node(line, column, node.value, node.text)
        return found

    def _scalar(self, event: Any, place: tuple[int, int]) -> Any:
        """Return the value of a scalar; only one without quotes can be more than its text."""
        text: str = event.value
        if not event.implicit[0]:
            return text
        tag = self._loader.resolve(yaml.ScalarNode, text, (True, False))
        if tag == f"{_CORE}merge":
            raise UnreadableError(*place, f"the merge {text} is not allowed; write it out")
        if tag not in _TYPES:
            return text
        if tag in _NUMBERS:
            _check_number(text, place)
        node = yaml.ScalarNode(tag, text)
        try:
            return self._loader.yaml_constructors[tag](self._loader, node)
        except (ValueError, OverflowError) as error:
            raise UnreadableError(*place, f"it is not YAML: {error}; correct it") from error


def _check_number(text: str, place: tuple[int, int]) -> None:
    if len(text) > NUMBER_LENGTH_MAX:
        problem = f"a number of {len(text)} characters is too long; put it in quotation marks"
        raise UnreadableError(*place, problem)
    if _TWO_READINGS.fullmatch(text):
        problem = "can be read as two numbers; put it in quotation marks or write it otherwise"
        raise UnreadableError(*place, f"{text} {problem}")


def _short(text: str) -> str:
    """Return the beginning of a text on one line."""
    return repr(text[:_SHOWN_LENGTH_MAX])[1:-1]


def _place_of(mark: Any, last: int) -> tuple[int, int]:
    """Return line and column of a mark, counted from 1; both are 0 without a mark."""
    if mark is None:
        return 0, 0
    # A mark after the last line is at the end of the text.
    return (mark.line + 1, mark.column + 1) if mark.line < last else (last, 1)
