"""The words of a plan's file: how the parts of a plan are read from them; it decides no order."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import StrEnum
from typing import Any, TypeAlias, TypeVar

from pydantic import BaseModel

from interlock.workers.runs.plan.model import (
    SEQUENCE_MAX,
    VARIABLES_MAX,
    Budget,
    Exceeded,
    Observed,
    OnFailure,
    Plan,
    PlannedSentinel,
    Policy,
    Shape,
    Strategy,
    Until,
    Worker,
)
from interlock.workers.specs.json_line import shown
from interlock.workers.specs.problems import Location
from interlock.workers.specs.values import MONEY, PLAIN, ValueKind, read_value
from interlock.workers.specs.yaml_document import Node

_NAME = re.compile(r"[a-z][a-z0-9-]{0,62}", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}", re.ASCII)
_SECONDS = re.compile(r"\d{1,9}(?:\.\d{1,3})?", re.ASCII)
_MODEL = re.compile(r"[^\s:]+:\S+")
_MS_DIGITS = 3
_NUL = "no command and no setting can have a NUL character; take it out"
_STRATEGY = "write immediate, {debounce_s: <s>}, {count: <n>} or {window_s: <s>}"
_POLICY = "write abort, ignore or {retry: {attempts: <n>, delay_ms: <ms>}}"
_UNTIL = "write {iterations: <n>} or context_exceeded"

_Shape = TypeVar("_Shape", bound=Shape)
# Reads a value at its place; None where it is refused, and then the place was told why.
Reader: TypeAlias = Callable[[Node, Location], Any]
# What each word of the file is called in the model, and how it is read.
Words: TypeAlias = Mapping[str, tuple[str, Reader]]


def made(
    model: type[_Shape], node: Node, words: Words, place: Location, **more: Any
) -> _Shape | None:
    """Return what the lines of a mapping mean, or None where anything is refused.

    What is null is as if it were not there; `more` are parts that are written elsewhere.
    """
    before = place.problems.count
    written = {
        word: one for word, one in place.fields(node, words).items() if one.value is not None
    }
    parts = {
        words[word][0]: words[word][1](one, place.inside(word)) for word, one in written.items()
    }
    if isinstance(node.value, dict) and (wrong := model.mismatch(parts)):
        place.refuse(node.line, wrong)
    whole = {born: part for born, part in (parts | more).items() if part is not None}
    required = {born for born, told in model.model_fields.items() if told.is_required()}
    # Who asks for a part has told the place of one that is missing, or was refused, before.
    if place.problems.count > before or not required <= {*whole}:
        return None
    return model.model_validate(whole)


def need(node: Node, word: str, advice: str, place: Location) -> bool:
    """Tell whether a word is there, with anything behind it; the place is told if it is not."""
    if not isinstance(node.value, dict):
        return False
    if word in node.value and node.value[word].value is not None:
        return True
    place.refuse(node.value[word].line if word in node.value else node.line, advice)
    return False


def listed(node: Node, place: Location, *, most: int, what: str) -> list[Node]:
    """Return the entries of a list that has at least one."""
    entries = place.entries(node)
    if isinstance(node.value, list) and not entries:
        place.refuse(node.line, f"it is empty; write at least one {what}")
    if len(entries) > most:
        place.refuse(node.line, f"these are {len(entries)}, at most {most} are allowed")
    return entries


def value(model: type[BaseModel], born: str, kind: ValueKind = PLAIN) -> Reader:
    """Return what reads a single value, as the field of a model has it."""
    return lambda node, place: read_value(model, born, kind, node, place)


def one_of(choices: type[StrEnum]) -> ValueKind:
    """Return the kind of value that is one of a few words."""

    def read(node: Node) -> StrEnum:
        if isinstance(node.value, str) and node.value in {*choices}:
            return choices(node.value)
        *others, last = choices
        raise ValueError(f"write {', '.join(others)} or {last}")

    return ValueKind(read, str)


def worker_words(model: type[Worker]) -> Words:
    """Return the words of what works: a command, or a model with a prompt."""
    return {
        "command": ("command", value(model, "command", TEXT)),
        "model": ("model", value(model, "model", MODEL)),
        "prompt": ("prompt", value(model, "prompt", TEXT)),
    }


def sentinel(name: str, node: Node, place: Location) -> PlannedSentinel | None:
    """Return a sentinel."""
    return made(PlannedSentinel, node, _SENTINEL, place, id=name)


def budget(node: Node, place: Location) -> Budget | None:
    """Return what a codon or the run may use."""
    return made(Budget, node, _BUDGET, place)


def environment(node: Node, place: Location) -> Any:
    """Return variables for commands."""
    if not isinstance(node.value, dict):
        place.refuse(node.line, f"{shown(node.plain())}: write lines of the form KEY: value")
        return {}
    if len(node.value) > VARIABLES_MAX:
        problem = f"these are {len(node.value)}, at most {VARIABLES_MAX} are allowed"
        place.refuse(node.line, problem)
        return {}
    sound: dict[str, Node] = {}
    for key, inner in node.value.items():
        if not isinstance(key, str) or not _VARIABLE.fullmatch(key):
            problem = f"{shown(key)} cannot be a variable; write letters, digits and _"
            place.refuse(inner.line, problem)
        elif isinstance(inner.value, str) and "\0" in inner.value:
            place.inside(key).refuse(inner.line, _NUL)
        else:
            sound[key] = inner
    return read_value(Plan, "environment", PLAIN, Node(node.line, sound), place)


def on_failure(node: Node, place: Location) -> OnFailure | None:
    """Return what follows a failure."""
    if node.value in (Policy.ABORT, Policy.IGNORE):
        return OnFailure(policy=Policy(node.value))
    if not isinstance(node.value, dict) or not node.value:
        place.refuse(node.line, f"{shown(node.plain())}: {_POLICY}")
        return None
    written = place.fields(node, ("retry",))
    if "retry" not in written:
        return None
    # Without settings of its own it is as it always is.
    line, settings, _ = written["retry"]
    node = Node(line, {} if settings is None else settings)
    return made(OnFailure, node, _RETRY, place.inside("retry"), policy=Policy.RETRY)


def until(node: Node, place: Location) -> Until | None:
    """Return when a loop ends."""
    if node.value == "context_exceeded":
        return Until(context_exceeded=True)
    if not isinstance(node.value, dict):
        place.refuse(node.line, f"{shown(node.plain())}: {_UNTIL}")
        return None
    return made(Until, node, _ENDS, place)


def _strategy(node: Node, place: Location) -> Strategy | None:
    if node.value == "immediate":
        return Strategy()
    if not isinstance(node.value, dict) or not node.value:
        place.refuse(node.line, f"{shown(node.plain())}: {_STRATEGY}")
        return None
    return made(Strategy, node, _STRATEGIES, place)


def _events(node: Node, place: Location) -> tuple[Observed, ...]:
    found: list[Observed] = []
    for index, entry in enumerate(listed(node, place, most=SEQUENCE_MAX, what="event")):
        known = tuple(one.value for one in Observed)
        if isinstance(entry.value, str) and entry.value in known:
            found.append(Observed(entry.value))
            continue
        meant = place.problems.suggestion(str(entry.value), known)
        problem = f"{shown(entry.plain())} is no event; known: {', '.join(known)}{meant}"
        place.inside(index).refuse(entry.line, problem)
    return tuple(found)


def _events_apart(node: Node, place: Location) -> tuple[Observed, ...]:
    found = _events(node, place)
    for event in sorted({one for one in found if found.count(one) > 1}):
        place.refuse(node.line, f"{event} is there more than once; write it once")
    return found


def _read_name(node: Node) -> str:
    if not isinstance(node.value, str):
        raise ValueError("it is no text; put it in quotation marks")  # noqa: TRY004 - not a bug
    if "#" in node.value:
        raise ValueError("the sign # is for the iterations of loops; choose a name without it")
    if not _NAME.fullmatch(node.value):
        raise ValueError("write up to 63 small letters, digits and -, a letter first")
    return node.value


def _read_text(node: Node) -> Any:
    if isinstance(node.value, str) and "\0" in node.value:
        raise ValueError(_NUL)
    if isinstance(node.value, str) and not node.value.strip():
        raise ValueError("it is empty; write a text")
    return node.plain()


def _read_model(node: Node) -> str:
    if isinstance(node.value, str) and _MODEL.fullmatch(node.value):
        return node.value
    raise ValueError("write it as <provider>:<name>")


def _read_ms(node: Node) -> int:
    # What stands there, not what it means: a float has lost digits already.
    if type(node.value) in (int, float) and _SECONDS.fullmatch(node.text):
        return int(Decimal(node.text).scaleb(_MS_DIGITS))
    raise ValueError("write seconds like 5 or 0.5, with at most 3 decimals")


def _read_true(node: Node) -> bool:
    if node.value is not True:
        raise ValueError("write true, or take it out")
    return True


NAME = ValueKind(_read_name, str)
TEXT = ValueKind(_read_text, str)
MODEL = ValueKind(_read_model, str)
SECONDS = ValueKind(_read_ms, lambda ms: f"{ms / 1_000:g}")
_TRUE = ValueKind(_read_true, bool)
_BUDGET: Words = {
    "cost_usd": ("cost_micro", value(Budget, "cost_micro", MONEY)),
    "duration_s": ("duration_s", value(Budget, "duration_s")),
    "output_tokens": ("output_tokens", value(Budget, "output_tokens")),
    "exceeded": ("exceeded", value(Budget, "exceeded", one_of(Exceeded))),
}
_RETRY: Words = {
    "attempts": ("attempts", value(OnFailure, "attempts")),
    "delay_ms": ("delay_ms", value(OnFailure, "delay_ms")),
}
_ENDS: Words = {
    "context_exceeded": ("context_exceeded", value(Until, "context_exceeded", _TRUE)),
    "iterations": ("iterations", value(Until, "iterations")),
}
_STRATEGIES: Words = {
    "debounce_s": ("debounce_ms", value(Strategy, "debounce_ms", SECONDS)),
    "count": ("count", value(Strategy, "count")),
    "window_s": ("window_ms", value(Strategy, "window_ms", SECONDS)),
}
_SENTINEL: Words = {
    "on": ("on", _events_apart),
    "sequence": ("sequence", _events),
    "strategy": ("strategy", _strategy),
    **worker_words(PlannedSentinel),
    "required": ("required", value(PlannedSentinel, "required")),
    "timeout_s": ("timeout_s", value(PlannedSentinel, "timeout_s")),
}
