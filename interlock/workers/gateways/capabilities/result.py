"""The results of calls of capabilities, with values that a log can keep."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal, TypeAlias

from interlock.kernel.traits import Children
from interlock.workers.text import one_line

VALUE_BYTES_MAX = 16 * 1024
VALUE_DEPTH_MAX = 32
STEPS_MAX = 100
_INTEGER_MAX = 2**63
_NODES_MAX = 100_000

Code: TypeAlias = Literal["deadline", "error", "invalid_result", "unavailable", "exit"]
Relationship: TypeAlias = Literal["decompose", "group", "singular"]
StepList: TypeAlias = tuple[Mapping[str, str], ...]


class InvalidResultError(Exception):
    """A capability returned a value that JSON cannot express. Correct the capability."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{one_line(path, length_max=80)} {problem}")


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The capability succeeded. `value` is JSON of at most 16 KiB; `truncated` if it was longer."""

    value: Any
    steps: StepList = ()
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class SplitWork:
    """The work is split into children; each has title, text and fields."""

    children: tuple[Mapping[str, Any], ...]
    relationship: Relationship
    steps: StepList = ()


@dataclass(frozen=True, slots=True)
class Failed:
    """The capability failed, or may have; with the code `deadline` it may still be running."""

    code: Code
    detail: str
    steps: StepList = ()
    exit_code: int | None = None


Result: TypeAlias = Succeeded | SplitWork | Failed


def fit(value: object, *, name: str = "result") -> tuple[Any, bool]:
    """Return the value as plain JSON data of at most 16 KiB, and whether it was cut.

    Raises InvalidResultError for NaN, infinities, bytes, objects, lone surrogates, cycles, and
    keys that are not text: such a result must not look like a success.
    """
    _inspect(value, name, depth=0, seen=0)
    if len(_encoded(value)) <= VALUE_BYTES_MAX:
        return json.loads(_encoded(value)), False
    cut, _ = _cut(value, VALUE_BYTES_MAX)
    assert len(_encoded(cut)) <= VALUE_BYTES_MAX, "the cut value fits"
    return cut, True


def json_problem(value: object, name: str) -> str:
    """Return what JSON cannot express in a value of this name, with its path, or ''."""
    try:
        _inspect(value, name, depth=0, seen=0)
    except InvalidResultError as error:
        return str(error)
    return ""


def check_split(split: SplitWork) -> None:
    """Check the number of children, and that each has a title. Raises InvalidResultError."""
    if not 1 <= len(split.children) <= Children.NUMBER_MAX:
        number = len(split.children)
        raise InvalidResultError(
            path="children",
            problem=f"must have 1 to {Children.NUMBER_MAX} members, it has {number}",
        )
    for index, child in enumerate(split.children):
        if not isinstance(child, Mapping) or not isinstance(child.get("title"), str):
            raise InvalidResultError(path=f"children[{index}]", problem="has no title")
    _inspect([dict(child) for child in split.children], "children", depth=0, seen=0)


def _inspect(value: object, path: str, *, depth: int, seen: int) -> int:
    """Check a value; return how many were seen so far. Both limits end a cycle."""
    seen += 1
    if depth > VALUE_DEPTH_MAX:
        raise InvalidResultError(path, f"is nested deeper than {VALUE_DEPTH_MAX} levels")
    if seen > _NODES_MAX:
        raise InvalidResultError(path, f"comes after {_NODES_MAX} other values, the maximum")
    if isinstance(value, dict):
        for key, inner in value.items():
            _inspect_key(key, path)
            seen = _inspect(inner, f"{path}.{key}", depth=depth + 1, seen=seen)
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            seen = _inspect(inner, f"{path}[{index}]", depth=depth + 1, seen=seen)
    elif problem := _problem_of(value):
        raise InvalidResultError(path, problem)
    return seen


def _inspect_key(key: object, path: str) -> None:
    problem = _problem_of(key) if isinstance(key, str) else "is not text"
    if problem:
        raise InvalidResultError(path, f"has the key {key!r}, which {problem}")


def _problem_of(value: object) -> str | None:
    match value:
        case None | bool():
            return None
        case str():
            return _problem_of_text(value)
        case int():
            inside = -_INTEGER_MAX <= value < _INTEGER_MAX
            return None if inside else "is an integer beyond 64 bits"
        case float():
            return None if isfinite(value) else f"is {value}, which JSON cannot express"
        case _:
            return f"is a {type(value).__name__}, which is not JSON"


def _problem_of_text(text: str) -> str | None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"has a lone surrogate at {error.start}"
    return None


def _encoded(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()


def _cut(value: object, room: int) -> tuple[Any, int]:
    """Return the beginning of a value whose JSON has at most `room` bytes, and its size."""
    if isinstance(value, str):
        text = _cut_text(value, room)
        return text, len(_encoded(text))
    if isinstance(value, dict):
        return _cut_mapping(value, room)
    if isinstance(value, list | tuple):
        return _cut_sequence(value, room)
    return value, len(_encoded(value))


def _cut_text(text: str, room: int) -> str:
    if len(text) <= room and len(_encoded(text)) <= room:
        return text
    low, high = 0, min(len(text), room)
    while low < high:
        middle = (low + high + 1) // 2
        fits = len(_encoded(text[:middle])) <= room
        low, high = (middle, high) if fits else (low, middle - 1)
    return text[:low]


def _cut_mapping(value: Mapping[str, object], room: int) -> tuple[dict[str, Any], int]:
    kept: dict[str, Any] = {}
    used = 2
    for key, inner in value.items():
        overhead = len(_encoded(key)) + 4
        # A number or a boolean cannot be cut: it is kept only if all of it fits.
        if used + overhead + _size_min(inner) > room:
            break
        kept[key], size = _cut(inner, room - used - overhead)
        used += overhead + size
    return kept, used


def _cut_sequence(value: Sequence[object], room: int) -> tuple[list[Any], int]:
    kept: list[Any] = []
    used = 2
    for inner in value:
        if used + 2 + _size_min(inner) > room:
            break
        element, size = _cut(inner, room - used - 2)
        kept.append(element)
        used += 2 + size
    return kept, used


def _size_min(value: object) -> int:
    return 2 if isinstance(value, str | dict | list | tuple) else len(_encoded(value))
