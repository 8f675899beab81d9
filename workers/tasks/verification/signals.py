"""What must be true of finished work, and what was found; it looks at nothing itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum, auto
from typing import Any

from interlock.kernel.errors import CallError
from interlock.workers.files.folder import problem_of_path
from interlock.workers.text import sentence

SIGNALS_MAX = 50
VALUE_LENGTH_MAX = 4_000
SEPARATOR = " :: "
_SHOWN_LENGTH_MAX = 80


class SignalType(StrEnum):
    """What is looked at."""

    PATH_EXISTS = auto()
    GLOB_EXISTS = auto()
    TEST_PASSES = auto()
    FILE_CONTAINS = auto()
    LLM_REVIEW = auto()
    LLM_JUDGE = auto()


class InvalidSignalError(CallError):
    """A task cannot have this signal. Correct it; `index` counts from 0."""

    def __init__(self, index: int, value: object, problem: str) -> None:
        shown = sentence(repr(value), length_max=_SHOWN_LENGTH_MAX)
        super().__init__(f"signal {index}, {shown}: {problem}")
        self.index, self.value, self.problem = index, value, problem


@dataclass(frozen=True, slots=True)
class Signal:
    """One condition. Its type is any text: what another version knew may be unknown here."""

    type: str
    value: str


@dataclass(frozen=True, slots=True)
class SignalResult:
    """What became of one signal. `flagged`: a judge was not sure, so a person should look."""

    type: str
    value: str
    passed: bool
    detail: str
    flagged: bool = False
    confidence: float | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """All results in the order of the signals. Passed if each one did; none at all passes."""

    passed: bool
    results: tuple[SignalResult, ...]


def parse_signals(given: Sequence[Mapping[str, Any]]) -> tuple[Signal, ...]:
    """Read a task's signals: each has a type and a value. Raises InvalidSignalError."""
    if len(given) > SIGNALS_MAX:
        too_many = f"a task has at most {SIGNALS_MAX} signals, these are {len(given)}"
        raise InvalidSignalError(SIGNALS_MAX, given[SIGNALS_MAX], too_many)
    found = []
    for index, one in enumerate(given):
        problem = _problem_of(one)
        if problem is not None:
            value = one.get("value", one) if isinstance(one, Mapping) else one
            raise InvalidSignalError(index, value, problem)
        found.append(Signal(SignalType(one["type"]), one["value"]))
    return tuple(found)


def file_and_text(value: str) -> tuple[str, str]:
    """Split the value of a file_contains; an empty text means that it is none."""
    path, _, text = value.partition(SEPARATOR)
    return path.strip(), text


def _problem_of(one: object) -> str | None:
    if not isinstance(one, Mapping) or set(one) != {"type", "value"}:
        return "a signal has the two fields type and value"
    of = one["type"]
    if not isinstance(of, str) or of not in set(SignalType):
        shown = sentence(repr(of), length_max=_SHOWN_LENGTH_MAX)
        return f"{shown} is no type of signal; known: {', '.join(SignalType)}"
    return _problem_of_text(one["value"]) or _problem_of_value(SignalType(of), one["value"])


def _problem_of_text(value: object) -> str | None:
    if not isinstance(value, str) or not value.strip():
        return "the value must be a text"
    if len(value) > VALUE_LENGTH_MAX:
        return f"the value has {len(value)} characters, at most {VALUE_LENGTH_MAX} are allowed"
    if "\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value):
        return "the value has a character that no command and no path can have"
    return None


def _problem_of_value(of: SignalType, value: str) -> str | None:
    match of:
        case SignalType.PATH_EXISTS | SignalType.GLOB_EXISTS:
            return problem_of_path(value)
        case SignalType.FILE_CONTAINS:
            path, text = file_and_text(value)
            return problem_of_path(path) if text else f"write it as 'path{SEPARATOR}text'"
        case SignalType.TEST_PASSES | SignalType.LLM_REVIEW | SignalType.LLM_JUDGE:
            return None
