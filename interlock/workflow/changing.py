"""How rows of a workflow change the data of its record: outcomes, answers, calls. Pure."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass

from pydantic import BaseModel

from interlock.kernel.payload import Shape, parsed
from interlock.kernel.table import Ask
from interlock.workflow.data import (
    OWN,
    Data,
    JsonData,
    Merge,
    as_json,
    changes,
    digest,
    fields_merged_by,
    merged,
    visible,
)
from interlock.workflow.parts import CallPart

ONCE = f"{OWN}once"  # the names of what was begun in this state and may not be done again
WHY = f"{OWN}lost"  # why it is not known whether that was done


class Refuse(Exception):  # noqa: N818 - it reads as what it does: raise Refuse("the parcel has left")
    """A call is refused, with a sentence for who makes it."""


class Cancelled(Shape):
    """Why a person or a program has cancelled a record."""

    reason: str = ""


class Begun(Shape):
    """What was begun and may not be done twice, and a digest of the data that the step saw."""

    name: str
    seen: str


class Lost(Shape):
    """Why it is not known whether a step was done."""

    code: str = ""
    detail: str = ""


def forgotten(ask: Ask) -> JsonData:
    """Return the data without what the workflow itself remembered of the state that is left."""
    return {name: value for name, value in ask.data.items() if name not in (ONCE, WHY)}


def answered(ask: Ask) -> JsonData:
    """Return the data with the outcome of a step. What the step had begun is over."""
    return merged(forgotten(ask), ask.payload)


def begun(ask: Ask) -> JsonData:
    """Return the data, which now say what was begun."""
    return {**ask.data, ONCE: [*ask.data.get(ONCE, []), ask.payload["name"]]}


def lost(ask: Ask) -> JsonData:
    """Return the data, which now say why it is not known whether the step was done."""
    data = {name: value for name, value in ask.data.items() if name != ONCE}
    return {**data, WHY: ask.payload.get("detail", "")}


def unfit(misfit: Callable[[Ask], str]) -> Callable[[Ask], JsonData]:
    """Return an update for an outcome that does not fit the data: a person is asked why not."""

    def update(ask: Ask) -> JsonData:
        return {**forgotten(ask), WHY: f"what it has set does not fit: {misfit(ask)}"}

    return update


def unless_begun(guard: Callable[[Ask], bool]) -> Callable[[Ask], bool]:
    """Return a guard that disagrees once something has begun that may be done once."""
    return lambda ask: ONCE not in ask.data and guard(ask)


def settled(model: type[BaseModel], data: JsonData) -> str:
    """Return a digest of the plain fields, which no call may change once a step has begun."""
    return digest({name: data.get(name) for name in fields_merged_by(model, Merge.PLAIN)})


@dataclass(frozen=True, slots=True)
class Calling:
    """A call from outside in one state: whether it is taken, and what it makes of the data."""

    part: CallPart
    model: type[Data]
    is_once: bool
    marks_once: bool

    def is_taken(self, ask: Ask) -> bool:
        """Whether the call is taken."""
        return not self.refusal(ask)

    def refusal(self, ask: Ask) -> str:
        """Return why the call is refused, or ''."""
        change = self._change(ask)
        if isinstance(change, Refuse):
            return str(change) or "it is refused"
        if change.get("taken"):
            return f"{', '.join(change['taken'])} is emptied by steps alone"
        if not (self.is_once or (self.marks_once and ONCE in ask.data)):
            return ""
        names = ", ".join(change.get("values", {}))
        return names and (
            f"{names} cannot be changed while a step is at work that may be done once; "
            "call again when it has ended"
        )

    def changes(self, value: Callable[[JsonData], object]) -> Callable[[Ask], bool]:
        """Return whether a call is taken and changes a value that follows from the data."""

        def changes(ask: Ask) -> bool:
            return self.is_taken(ask) and value(self.update(ask)) != value(ask.data)

        return changes

    def update(self, ask: Ask) -> JsonData:
        """Return the data after a call that is taken."""
        change = self._change(ask)
        assert not isinstance(change, Refuse), "a guard has taken the call"
        return merged(ask.data, change)

    def _change(self, ask: Ask) -> JsonData | Refuse:
        """Return what the function of the call changes, or its refusal. It is called once."""
        if self.part.name not in ask.found:
            try:
                ask.found[self.part.name] = self._called(ask)
            except Refuse as refusal:
                ask.found[self.part.name] = refusal
        found: JsonData | Refuse = ask.found[self.part.name]
        return found

    def _called(self, ask: Ask) -> JsonData:
        before = visible(ask.data)
        data = self.model.model_validate(deepcopy(before))
        self.part.function(data, parsed(self.part.message, self.part.name, ask.payload))
        return changes(self.model, before, as_json(self.model.model_validate(data.model_dump())))
