"""Reads YAML that a person wrote into nodes, which are values with their lines.

The reader refuses everything that could fill the memory or that could be read in two ways: aliases,
tags, merges, a repeated key, numbers of base 60 and 8.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import yaml

from interlock.kernel.errors import CallError

DEPTH_MAX = 16
NODES_MAX = 1_000_000
NUMBER_LENGTH_MAX = 100
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


class UnreadableError(CallError):
    """A text cannot be read. Correct it at `line`, which is 0 if the problem has no line."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"line {line}: {problem}" if line else problem)
        self.line, self.problem = line, problem


class Node(NamedTuple):
    """A value, its line (that of its key if it has one), and its text as it is written in the file.

    `value` is a list of nodes, a mapping of keys to nodes, or the Python value of a scalar. A node
    is a tuple because files have hundreds of thousands of them.
    """

    line: int
    value: Any
    text: str = ""

    def plain(self) -> Any:
        """Return the value without its lines."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value


def read_yaml(text: str) -> Node:
    """Read one document. Raises UnreadableError."""
    if strange := _STRANGE.search(text):
        line = text.count("\n", 0, strange.start()) + 1
        problem = f"unacceptable character #x{ord(strange.group()):04x}"
        raise UnreadableError(line, f"it is not YAML: {problem}; take it out")
    # The parser in C counts the end of a text as one more line.
    last = max(1, len(text.splitlines()))
    try:
        return _Composer(LOADER(text), last).root()
    except yaml.MarkedYAMLError as error:
        line = min(_line_of(error.problem_mark or error.context_mark), last)
        problem = ", ".join(part for part in (error.context, error.problem) if part)
        raise UnreadableError(line, f"it is not YAML: {problem}; correct it") from error
    except yaml.YAMLError as error:
        first = (str(error) or type(error).__name__).partition("\n")[0]
        raise UnreadableError(0, f"it is not YAML: {first}; correct it") from error


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
            return Node(1, None)
        take()
        root = self._node(take(), depth=1)
        take()
        if not seen(yaml.StreamEndEvent):
            line = _line_of(take().start_mark)
            problem = "expected a single document, but this begins another one"
            raise UnreadableError(line, f"it is not YAML: {problem}; make files of them")
        return root

    def _node(self, event: Any, *, depth: int) -> Node:
        line = min(_line_of(event.start_mark), self._last)
        if isinstance(event, yaml.AliasEvent):
            # A few aliases of aliases are enough to fill the memory.
            problem = f"the alias *{_short(event.anchor or '')} is not allowed; write it out"
            raise UnreadableError(line, problem)
        if event.tag:
            problem = f"the tag {_short(event.tag)} is not allowed; leave it out"
            raise UnreadableError(line, problem)
        self._nodes += 1
        if self._nodes > NODES_MAX:
            raise UnreadableError(line, f"it has more than {NODES_MAX} values; split it")
        if depth > DEPTH_MAX:
            # The limit also bounds the time: the parser gets slower with each open bracket.
            problem = f"it is nested deeper than {DEPTH_MAX} levels; make it flatter"
            raise UnreadableError(line, problem)
        if isinstance(event, yaml.ScalarEvent):
            return Node(line, self._scalar(event, line), event.value)
        if isinstance(event, yaml.SequenceStartEvent):
            return Node(line, self._list(depth))
        return Node(line, self._mapping(depth))

    def _list(self, depth: int) -> list[Node]:
        found: list[Node] = []
        while not isinstance(event := self._loader.get_event(), yaml.SequenceEndEvent):
            found.append(self._node(event, depth=depth + 1))
        return found

    def _mapping(self, depth: int) -> dict[Any, Node]:
        found: dict[Any, Node] = {}
        lines: dict[str, int] = {}
        while not isinstance(event := self._loader.get_event(), yaml.MappingEndEvent):
            line, key, text = self._node(event, depth=depth + 1)
            if isinstance(key, list | dict):
                raise UnreadableError(line, "a key is a list or a mapping; write a word")
            node = self._node(self._loader.get_event(), depth=depth + 1)
            if text in lines or key in found:
                first = lines[text] if text in lines else found[key].line
                problem = f"'{_short(text)}' is there twice, first in line {first}; remove one"
                raise UnreadableError(line, problem)
            lines[text] = line
            found[key] = Node(line, node.value, node.text)
        return found

    def _scalar(self, event: Any, line: int) -> Any:
        """Return the value of a scalar; only one without quotes can be more than its text."""
        text: str = event.value
        if not event.implicit[0]:
            return text
        tag = self._loader.resolve(yaml.ScalarNode, text, (True, False))
        if tag == f"{_CORE}merge":
            raise UnreadableError(line, f"the merge {text} is not allowed; write it out")
        if tag not in _TYPES:
            return text
        if tag in _NUMBERS:
            _check_number(text, line)
        node = yaml.ScalarNode(tag, text)
        try:
            return self._loader.yaml_constructors[tag](self._loader, node)
        except (ValueError, OverflowError) as error:
            raise UnreadableError(line, f"it is not YAML: {error}; correct it") from error


def _check_number(text: str, line: int) -> None:
    if len(text) > NUMBER_LENGTH_MAX:
        problem = f"a number of {len(text)} characters is too long; put it in quotation marks"
        raise UnreadableError(line, problem)
    if _TWO_READINGS.fullmatch(text):
        problem = "can be read as two numbers; put it in quotation marks or write it otherwise"
        raise UnreadableError(line, f"{text} {problem}")


def _short(text: str) -> str:
    """Return the beginning of a text on one line."""
    return repr(text[:_SHOWN_LENGTH_MAX])[1:-1]


def _line_of(mark: Any) -> int:
    """Return the line of a mark, counted from 1; 0 without a mark."""
    line = getattr(mark, "line", None)
    return 0 if line is None else int(line) + 1
