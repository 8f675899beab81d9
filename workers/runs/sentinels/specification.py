"""What a plan says of one sentinel, as a value; it loads nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kernel.errors import CallError
from workers.json_line import NAME_LENGTH_MAX, shown
from workers.runs.sentinels.strategy import (
    COUNT_MAX,
    DEBOUNCE_S_MAX,
    WINDOW_S_MAX,
    Kind,
    Strategy,
)
from workers.runs.sentinels.trigger import Trigger

TIMEOUT_S = 60.0
_LIMITS = {
    Kind.DEBOUNCE_S: DEBOUNCE_S_MAX,
    Kind.COUNT: COUNT_MAX,
    Kind.WINDOW_S: WINDOW_S_MAX,
}


class SentinelSpecificationError(CallError):
    """A sentinel is specified in a way that none can observe by. Correct the plan."""

    def __init__(self, sentinel: str, problem: str) -> None:
        super().__init__(f"sentinel {shown(sentinel)}: {problem}")
        self.sentinel, self.problem = sentinel, problem


@dataclass(frozen=True, slots=True)
class SentinelSpecification:
    """One sentinel. Either a command, or a model and what it is told, is called."""

    id: str
    trigger: Trigger
    strategy: Strategy
    command: str | None
    model: str | None
    prompt: str | None
    required: bool
    timeout_s: float

    @property
    def doer(self) -> str:
        """The model, or the first word of the command."""
        named = self.model if self.command is None else self.command.split(maxsplit=1)[0]
        return (named or "")[:NAME_LENGTH_MAX]

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> SentinelSpecification:
        """Read a plan's mapping; what is None counts as not said.

        Raises SentinelSpecificationError.
        """
        name = said.get("id")
        if not isinstance(name, str) or not 0 < len(name) <= NAME_LENGTH_MAX:
            raise SentinelSpecificationError(
                str(name), f"its id must be a text of 1 to {NAME_LENGTH_MAX} characters"
            )
        try:
            return cls._read(name, {key: one for key, one in said.items() if one is not None})
        except ValueError as problem:
            raise SentinelSpecificationError(name, str(problem)) from problem

    @classmethod
    def _read(cls, name: str, said: Mapping[str, Any]) -> SentinelSpecification:
        command, model, prompt = (_text(said, key) for key in ("command", "model", "prompt"))
        if (command is None) == (model is None):
            raise ValueError("give either a command or a model")
        if (model is None) != (prompt is None):
            raise ValueError("a model needs a prompt, and a command takes none")
        timeout_s = said.get("timeout_s", TIMEOUT_S)
        return cls(
            id=name,
            trigger=_trigger(said),
            strategy=_strategy(said.get("strategy", {Kind.IMMEDIATE: True})),
            command=command,
            model=model,
            prompt=prompt,
            required=bool(said.get("required", False)),
            timeout_s=_number(timeout_s, "timeout_s", most=WINDOW_S_MAX),
        )


def _text(said: Mapping[str, Any], key: str) -> str | None:
    value = said.get(key)
    if value is None:
        return None
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise ValueError(f"its {key} must be a text without NUL that says something")
    return value


def _trigger(said: Mapping[str, Any]) -> Trigger:
    given = [key for key in ("on", "sequence") if said.get(key)]
    if len(given) != 1:
        raise ValueError("give either the events it is on or a sequence of them")
    return Trigger(tuple(said[given[0]]), ordered=given[0] == "sequence")


def _strategy(said: Mapping[str, Any]) -> Strategy:
    if len(said) != 1 or set(said) - set(Kind):
        raise ValueError(f"its strategy must be one of {', '.join(Kind)}, it is {shown(said)}")
    [(name, limit)] = said.items()
    kind = Kind(name)
    if kind is Kind.IMMEDIATE:
        return Strategy(kind)
    limit = _number(limit, kind, most=_LIMITS[kind])
    if kind is Kind.COUNT and limit != int(limit):
        raise ValueError(f"its count must be a whole number, it is {shown(limit)}")
    return Strategy(kind, limit)


def _number(value: object, what: str, *, most: float) -> float:
    fits = isinstance(value, int | float) and not isinstance(value, bool)
    if not fits or not 0 < float(str(value)) <= most:
        raise ValueError(f"its {what} must be a number above 0, at most {most}, not {shown(value)}")
    return float(str(value))
