"""The completion signals of a task, which say what finished work must be like. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum, auto
from typing import Any

from interlock import CallError
from interlock.system.files import UntrustedFolder
from interlock.system.text import one_line
from interlock.systems.tasks.machines.task.limits import SIGNAL_LENGTH_MAX, SIGNALS_MAX

SEPARATOR = " :: "
# In the detail of a test command, between how it ended and the end of what it has printed.
LAST_OUTPUT = "; the last output:\n"
_SHOWN_LENGTH_MAX = 80
# Of the reason for which work is rejected, which has at most 2,000 characters.
_VALUE_LENGTH_MAX, _HEAD_LENGTH_MAX, _OUTPUT_LENGTH_MAX = 200, 900, 1_000


class SignalType(StrEnum):
    """What a signal checks."""

    PATH_EXISTS = auto()
    GLOB_EXISTS = auto()
    TEST_PASSES = auto()
    FILE_CONTAINS = auto()
    LLM_REVIEW = auto()
    LLM_JUDGE = auto()


MODEL_SIGNALS = (SignalType.LLM_REVIEW, SignalType.LLM_JUDGE)


class InvalidSignalError(CallError):
    """A signal is invalid. Correct it; `index` counts from 0."""

    def __init__(self, index: int, value: object, problem: str) -> None:
        shown = one_line(repr(value), length_max=_SHOWN_LENGTH_MAX)
        super().__init__(f"signal {index}, {shown}: {problem}")
        self.index, self.value, self.problem = index, value, problem


@dataclass(frozen=True, slots=True)
class ParsedSignal:
    """One condition. Its type may be one that only another version of Interlock knows."""

    type: str
    value: str


@dataclass(frozen=True, slots=True)
class SignalResult:
    """Whether one signal passed. `flagged`: the model was not sure, so a person should look."""

    type: str
    value: str
    passed: bool
    detail: str
    flagged: bool = False
    confidence: float | None = None
    seconds: float = 0.0

    @property
    def short_value(self) -> str:
        """Return the value as a short line."""
        return one_line(self.value, length_max=_VALUE_LENGTH_MAX)

    def not_passed(self, said: str) -> str:
        """Return `said`, and after it why the signal did not pass.

        The first line has the last one that a command printed, where most say what went wrong.
        """
        how, _, printed = self.detail.partition(LAST_OUTPUT)
        output = printed[-_OUTPUT_LENGTH_MAX:].strip()
        last = output.rpartition("\n")[2].strip()
        first = f"{said}: {how}: {last}" if last else f"{said}: {how}"
        more = f"\n{output}" if "\n" in output else ""
        return f"{first[:_HEAD_LENGTH_MAX]}{more}"


@dataclass(frozen=True, slots=True)
class CompletionVerdict:
    """The results in the order of the signals. Passed if all passed, also if there are none."""

    passed: bool
    results: tuple[SignalResult, ...]


def parse_signals(values: Sequence[Mapping[str, Any]]) -> tuple[ParsedSignal, ...]:
    """Read a task's signals: each has a type and a value. Raises InvalidSignalError."""
    if too_many := problem_of_number(len(values)):
        raise InvalidSignalError(SIGNALS_MAX, values[SIGNALS_MAX], too_many)
    signals = []
    for index, value in enumerate(values):
        problem = _problem_of(value)
        if problem is not None:
            shown = value.get("value", value) if isinstance(value, Mapping) else value
            raise InvalidSignalError(index, shown, problem)
        signals.append(ParsedSignal(SignalType(value["type"]), value["value"]))
    return tuple(signals)


def problem_of_number(number: int) -> str | None:
    """Return why a task may not have this many signals, or None if it may."""
    if number <= SIGNALS_MAX:
        return None
    return f"a task has at most {SIGNALS_MAX} signals, these are {number}"


def file_and_text(value: str) -> tuple[str, str]:
    """Split the value of a `file_contains` signal. An empty text makes the value invalid."""
    path, _, text = value.partition(SEPARATOR)
    return path.strip(), text


def _problem_of(signal: object) -> str | None:
    if not isinstance(signal, Mapping) or set(signal) != {"type", "value"}:
        return "a signal has the two fields type and value"
    name, value = signal["type"], signal["value"]
    if not isinstance(name, str) or name not in set(SignalType):
        shown = one_line(repr(name), length_max=_SHOWN_LENGTH_MAX)
        return f"{shown} is not a type of signal; known: {', '.join(SignalType)}"
    return _problem_of_text(value) or _problem_of_value(SignalType(name), value)


def _problem_of_text(value: object) -> str | None:
    if not isinstance(value, str) or not value.strip():
        return "the value must be a text"
    if len(value) > SIGNAL_LENGTH_MAX:
        return f"the value has {len(value)} characters, at most {SIGNAL_LENGTH_MAX} are allowed"
    if "\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value):
        return "the value has a character that a command or a path cannot have"
    return None


def _problem_of_value(signal_type: SignalType, value: str) -> str | None:
    match signal_type:
        case SignalType.PATH_EXISTS | SignalType.GLOB_EXISTS:
            return UntrustedFolder.problem_of(value)
        case SignalType.FILE_CONTAINS:
            path, text = file_and_text(value)
            return (
                UntrustedFolder.problem_of(path) if text else f"write it as 'path{SEPARATOR}text'"
            )
        case SignalType.TEST_PASSES | SignalType.LLM_REVIEW | SignalType.LLM_JUDGE:
            return None
