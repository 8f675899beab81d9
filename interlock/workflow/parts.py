"""The parts of a workflow as its author declared them, each with the line where that was."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from decimal import Decimal
from difflib import get_close_matches
from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel

from interlock.kernel.table import Transition
from interlock.workers.engine.system import Definition
from interlock.workflow.data import Data
from interlock.workflow.place import SourceLine
from interlock.workflow.signature import Function, uses_once

# A choice leads to a state; with a model, the answer has the fields of that model.
Choice = str | tuple[str, type[BaseModel]]
Predicate = Callable[[Any], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPart:
    """A function that does the work of a state and returns the state that follows."""

    name: str
    place: SourceLine
    function: Function
    targets: tuple[str, ...]
    takes_work: bool
    once: bool
    timeout: timedelta
    max_attempts: int
    retry_delay: timedelta  # after the first failure; it doubles
    on_failure: str  # the state that follows when its attempts are used up; '' asks a person
    pool: str
    queue: str
    concurrency: int | None  # how many are at work at one time, for each key; None: any number
    key: Callable[[Any], str] | None  # what it is counted by; None: all records
    marks_once: bool = False  # it calls work.once: known when the definition is closed

    @property
    def unclear(self) -> str:
        """The question that is asked if nobody knows whether what may be done once was done."""
        return f"{self.name}_unclear" if self.once or self.marks_once else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionPart:
    """A question to a person, whose answer decides the state that follows."""

    name: str
    place: SourceLine
    text: str
    choices: Mapping[str, tuple[str, type[BaseModel] | None]]
    offered: Mapping[str, Predicate] = field(default_factory=dict)
    timeout: timedelta | None = None
    on_timeout: str = ""
    remind: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitPart:
    """A state that waits for a call, for a time that the data name, or for another record's end."""

    name: str
    place: SourceLine
    calls: Mapping[str, tuple[str, type[BaseModel] | None]]
    until: Callable[[Any], Any] | None
    record: Callable[[Any], Any] | None  # the id of another record whose end is awaited
    then: str
    on_failure: str  # the state that follows an end of that record which is no success
    timeout: timedelta | None
    on_timeout: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPart:
    """A call from outside that changes the data, in any state in which the record lives."""

    name: str
    place: SourceLine
    function: Function
    message: type[BaseModel]
    by: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleanup:
    """A function that removes what a record leaves behind when it ends in a state."""

    end: str
    place: SourceLine
    function: Function
    takes_work: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EachPart:
    """A state that waits for children: one for each item of a list."""

    name: str
    place: SourceLine
    function: Function | None  # which works on an item, where the children are no other workflow
    field: str
    child: Definition[Any]
    then: str
    early: str  # the state that follows as soon as one child is lost; '' waits for all


@dataclass(frozen=True, slots=True, kw_only=True)
class HandRows:
    """Rows that the author has written by hand, and the models of what their triggers bring."""

    place: SourceLine
    transitions: tuple[Transition, ...]
    payloads: Mapping[str, type[BaseModel]]


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedPart:
    """A state or a trigger that the author has named in another place than its own."""

    kind: Literal["state", "trigger"]
    member: StrEnum
    place: SourceLine


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What records may be that an older version of the workflow has left.

    `renamed` has the present name of a state or an end by its older one; nothing enters what is
    `retired`; `migrations` make the data of each older `schema` those of the next one.
    """

    renamed: Mapping[str, str] = field(default_factory=dict)
    retired: tuple[str, ...] = ()
    schema: int = 1
    migrations: Mapping[int, Function] = field(default_factory=dict)


State = StepPart | QuestionPart | WaitPart | EachPart


Amount = float | Decimal | Callable[[Any], float | Decimal]


class Budget:
    """The most that a record and its children may use, by names: `usd`, `tokens` or any other.

    An amount is a number, or a function of the data. A step reserves before it uses something, and
    what is used up for good leads to the state `over`, or without one to a card.
    """

    def __init__(self, *, over: str = "", usd: Amount | None = None, **counted: Amount) -> None:
        self.over = over
        self.amounts: dict[str, Amount] = counted | ({} if usd is None else {"usd": usd})


@dataclass(slots=True, kw_only=True)
class Declared:
    """All that the author of a workflow has declared so far."""

    name: str
    data: type[Data]
    place: SourceLine
    start: str
    expires: timedelta | None
    title: str
    zone: str
    budget: Budget | None
    past: Past
    states: dict[str, State] = field(default_factory=dict)
    calls: dict[str, CallPart] = field(default_factory=dict)
    cleanups: dict[str, Cleanup] = field(default_factory=dict)
    by_hand: list[HandRows] = field(default_factory=list)
    named: list[NamedPart] = field(default_factory=list)
    ends: dict[str, bool] = field(default_factory=dict)
    ended_at: SourceLine | None = None  # where the definition was closed
    above: Declared | None = None  # the workflow whose items it works on, if it is of a function

    def close_at(self, place: SourceLine, ends: dict[str, bool]) -> None:
        """Note how records end, and which steps call `work.once`: their functions are known now."""
        self.ends, self.ended_at = ends, place
        for name, state in self.states.items():
            if isinstance(state, StepPart) and state.takes_work and uses_once(state.function):
                self.states[name] = replace(state, marks_once=True)

    @property
    def close(self) -> SourceLine:
        """The line that says how records end."""
        return self.ended_at or self.place

    def refuse_twin(
        self, place: SourceLine, name: str, kind: str, known: State | CallPart | Cleanup | None
    ) -> None:
        """Refuse a part that comes too late, or a second one of its name. Raises WorkflowError."""
        if self.ended_at:
            raise place.error(f"{name} comes after ends(), which closes the workflow")
        if known:
            message = f"{self.name} has {f'a {kind} ' if kind else ''}{name} already"
            raise place.error(f"{message} ({known.place}): choose another name")

    @property
    def limited(self) -> Collection[str]:
        """The names of what a budget limits: its own, or that of the workflow above it."""
        budget = self.budget or (self.above.budget if self.above else None)
        return tuple(budget.amounts) if budget else ()

    def place_of(self, name: str) -> SourceLine | None:
        """Return where a state or an end of this name was declared."""
        if state := self.states.get(name):
            return state.place
        return self.close if name in self.ends else None


# Options of questions and waits. A choice whose name is as near to one is a slip.
OPTIONS = (
    *("offered", "timeout", "on_timeout", "remind"),
    *("until", "then", "record", "on_failure"),
)
ALIKE = 0.85


def named_choices(
    place: SourceLine, choices: Mapping[str, Choice]
) -> dict[str, tuple[str, type[BaseModel] | None]]:
    """Return each choice with its target, and the model of its answer. Raises WorkflowError."""
    found: dict[str, tuple[str, type[BaseModel] | None]] = {}
    for name, choice in choices.items():
        if meant := get_close_matches(name, OPTIONS, 1, ALIKE):
            raise place.error(
                f"the choice {name} is written nearly as {meant[0]}=: which is meant?"
            )
        if isinstance(choice, str):
            found[name] = (choice, None)
            continue
        target, model = choice if isinstance(choice, tuple) and len(choice) == 2 else ("", None)  # noqa: PLR2004 - a pair
        is_model = isinstance(model, type) and issubclass(model, BaseModel)
        if not isinstance(target, str) or not target or not is_model:
            raise place.error(
                f"the choice {name} is {choice!r}: write the state that follows, as {name}='pay', "
                f"or with the model of its answer, as {name}=('failed', Because)"
            )
        found[name] = (target, model)
    return found
