"""The ways out of a state that many states have: a cancel, calls, times, children that begin."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from pydantic import BaseModel

from interlock.kernel.effect import CASCADE, RESOLUTION, SPAWN
from interlock.kernel.rows import Row, RowFields, by, move, reenter, rows, stay
from interlock.kernel.table import PERSON, PRODUCER, STALLS, Stage, Transition
from interlock.kernel.timer import Timer
from interlock.workflow.changing import (
    Calling,
    Cancelled,
    forgotten,
)
from interlock.workflow.data import JsonData
from interlock.workflow.durations import delay_of
from interlock.workflow.names import (
    CANCEL,
    CANCELLED,
    EXPIRE,
    EXPIRED,
    OF_EVERY_WORKFLOW,
    after,
    all_in,
    calls_of_waits,
    ends_of,
    enum_of,
    families_of,
    one_lost,
    targets,
    triggers_of_choices,
    triggers_of_unclear,
    unclear_states,
)
from interlock.workflow.of_data import OfData
from interlock.workflow.parts import Declared

ANYBODY = by(PERSON, PRODUCER)


class Ways:
    """The rows of a workflow, gathered state by state."""

    def __init__(self, flow: Declared) -> None:
        self.flow, self.closed = flow, ends_of(flow)
        self.choices = triggers_of_choices(flow)
        self.of_data = OfData(flow)
        self.families = families_of(flow)
        self.state = enum_of("State", [*flow.states, *unclear_states(flow), *self.closed])
        self.trigger = enum_of("Trigger", self._triggers())
        self.stages: list[Stage] = []
        self.rows: list[Transition] = []
        self.payloads: dict[str, type[BaseModel]] = {CANCEL: Cancelled}

    def _into(
        self, trigger: str, source: str, target: str, actors: tuple[str, ...], **fields: Any
    ) -> Row:
        """Return the row into a state. It creates the children that the state waits for."""
        if target in self.families:
            fields |= {"effect": SPAWN, "spawns": target}
        elif source in self.families:
            fields |= {"effect": CASCADE}
        # What a step has begun, and why it is unclear, is of the state that is left.
        fields.setdefault("update", forgotten)
        if source == target:
            return reenter(self.trigger[trigger], actors, **fields)
        return move(self.trigger[trigger], self.state[target], actors, **fields)

    def _cancel(self, state: str, **fields: Any) -> None:
        self._add(state, self._into(CANCEL, state, CANCELLED, ANYBODY, **fields))

    def _calls(
        self,
        state: str,
        text: Callable[[JsonData], str] | None = None,
        *,
        subject: Callable[[JsonData], object] | None = None,
        is_once: bool = False,
        marks_once: bool = False,
    ) -> None:
        """Add the rows of calls. What changes a question, or what a wait is for, begins it anew."""
        for part in self.flow.calls.values():
            self.payloads[part.name] = part.message
            calling = Calling(part, self.flow.data, is_once=is_once, marks_once=marks_once)
            trigger, actors = self.trigger[part.name], by(*part.by)
            taken: RowFields = {"update": calling.update, "says": f"{part.name} was called"}
            if text:
                anew: RowFields = {**taken, "guard": calling.changes(text), "asks_anew": True}
                self._add(state, stay(trigger, actors, **anew))
            if subject:
                again: RowFields = {**taken, "guard": calling.changes(subject)}
                self._add(state, reenter(trigger, actors, **again))
            row: RowFields = {**taken, "guard": calling.is_taken, "refusal": calling.refusal}
            self._add(state, stay(trigger, actors, **row))

    def _expiry(self, state: str) -> list[Timer]:
        if not self.flow.expires:
            return []
        self._add(state, self._into(EXPIRE, state, EXPIRED, by(STALLS)))
        delay = delay_of(self.flow.expires)
        return [Timer("expiry", delay, self.trigger[EXPIRE], since="created")]

    def _timer(self, name: str, length: timedelta) -> Timer:
        return Timer(name, delay_of(length), self.trigger[name])

    def _reminder(self, length: timedelta) -> Timer:
        return Timer("reminder", delay_of(length), effect=RESOLUTION)

    def _add(self, state: str, *each: Row) -> None:
        self.rows += rows(self.state[state], *each)

    def _triggers(self) -> list[str]:
        flow = self.flow
        named = [*OF_EVERY_WORKFLOW, *map(after, targets(flow)), *self.choices.values()]
        for name in self.families:
            named += [all_in(name), one_lost(name)]
        return [*named, *calls_of_waits(flow), *triggers_of_unclear(flow), *flow.calls]
