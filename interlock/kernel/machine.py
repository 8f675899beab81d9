"""A machine: the table of one kind of record, and how a decision follows from it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Any

from pydantic import BaseModel

from interlock.kernel.calling import amounts_of, as_data, called
from interlock.kernel.decision import Decision, Explanation
from interlock.kernel.defects import (
    defects_of,
    lax_answers,
    missing_fields,
    no_functions,
    unclear_effects,
    wrong_sentences,
)
from interlock.kernel.effect import CASCADE, NOTIFICATION, Effect, Kind
from interlock.kernel.errors import (
    GuardRefusedError,
    IgnoredError,
    IllegalTransitionError,
    InvalidPayloadError,
    MachineDefectError,
    UnknownStateError,
    UnknownTriggerError,
)
from interlock.kernel.event import NO_FACTS
from interlock.kernel.family_defects import family_defects
from interlock.kernel.outline import hash_of, outline_of
from interlock.kernel.owing import (
    NOTHING,
    asked,
    entered_effects,
    goes_on,
    left_effects,
    shares_changed,
)
from interlock.kernel.past_defects import past_defects
from interlock.kernel.payload import validated
from interlock.kernel.question import as_title, title_in
from interlock.kernel.reason import sentence
from interlock.kernel.record import Record, Version, child_ids
from interlock.kernel.table import (
    UNBOUND,
    Active,
    Ask,
    Bounds,
    Data,
    Mode,
    Owed,
    Stage,
    Terminal,
    Transition,
)
from interlock.kernel.tags import tags_in
from interlock.kernel.timer import Timer, TimerDue
from interlock.kernel.traits import (
    Bookkeeping,
    Children,
    NewChild,
    Placement,
    Prerequisites,
    no_sources,
    unrefused,
)
from interlock.kernel.trigger import CREATED


@dataclass(frozen=True)
class Machine:
    """The table of one kind of record, checked when it is made.

    A family is all records whose ids have the same first segment, the id of its root. No record
    need have that id.

    `initial_data` checks what a record is created from, and returns its data. It begins in the
    first of the `stages`, or in the one that `initial_state` chooses by the data; a producer then
    fires `first_trigger`. The first line of `title` names the record in lists and cards. `tags`
    that are not valid are dropped. A cancel fires the first legal one of `cancel_triggers`. By
    trigger, `ignores` says why it is only noted, and `says` why it moved a record.

    `close_trigger` is fired at a record whose parent has ended. `fact_sources` are the records that
    decisions about a record read besides its ancestors; `holder_refusal` says, by trigger, data and
    facts, why the holder of an effect may not fire the trigger, or ''. `inbox` is owed once a
    message was posted to a family, which `inbox_data` checks, and `mirror` after each commit: it
    shows the record elsewhere. `model` is that of the data; `migrate` makes data of an older
    `schema` fit. By old name, `renamed` has the present one of a state, and `renamed_triggers` of
    an outcome that is kept; nothing enters a state in `retired`, which is there for its records.
    """

    name: str
    stages: tuple[Stage, ...]
    transitions: tuple[Transition, ...]
    payloads: Mapping[str, type[BaseModel]] = field(default_factory=dict)
    schema: int = 1

    title: Callable[[Any], str] = title_in
    tags: Callable[[Any], Iterable[str]] = tags_in
    initial_data: Callable[[Data], Data] = dict
    initial_state: Callable[[Any], StrEnum] | None = None
    first_trigger: str = ""
    cancel_triggers: tuple[str, ...] = ()
    ignores: Mapping[str, str] = field(default_factory=dict)
    says: Mapping[str, str] = field(default_factory=dict)

    placement: Placement = field(default_factory=Placement)
    bookkeeping: Bookkeeping = field(default_factory=Bookkeeping)
    children: tuple[Children, ...] = ()
    prerequisites: Prerequisites | None = None
    close_trigger: str = ""
    fact_sources: Callable[[Record], tuple[str, ...]] = no_sources
    holder_refusal: Callable[[str, Any, Data], str] = unrefused
    inbox: Effect | None = None
    inbox_data: Callable[[Data], Data] = dict
    mirror: Effect | None = None
    renamed: Mapping[str, str] = field(default_factory=dict)
    renamed_triggers: Mapping[str, str] = field(default_factory=dict)
    retired: tuple[str, ...] = ()
    model: type[BaseModel] | None = None
    migrate: Callable[[Data, int], Data] | None = None

    def __post_init__(self) -> None:
        ends = (name for kind in self._kinds for name in (kind.advance_trigger, kind.lost_trigger))
        named = (*ends, self.close_trigger, self.first_trigger)
        triggers = (*named, *self.cancel_triggers, *self.ignores, *self.payloads)
        stages, rows, payloads = self.stages, self.transitions, self.payloads
        found = [
            *no_functions(self),
            *defects_of(stages, rows, triggers, self.retired),
            *past_defects(self),
            *family_defects(self._kinds, self.close_trigger, stages, rows, payloads, self.retired),
            *missing_fields(stages, self.cancel_triggers, payloads),
            *lax_answers(stages, payloads),
            *wrong_sentences(self.says, rows, payloads),
            *unclear_effects(self._owes()),
        ]
        if found:
            raise MachineDefectError(self.name, found)

    def taken_by(self, trigger: str, offered: Data) -> dict[str, Any]:
        """Return `offered` without the fields that the payload of the trigger does not have."""
        model = self.payloads.get(trigger)
        fields = model.model_fields if model else {}
        return {name: value for name, value in offered.items() if name in fields}

    def initial_stage(self, data: Data) -> Stage:
        """Return the stage that a record with this data begins in."""
        if self.initial_state is None:
            return self.stages[0]
        return self.stage(str(called(self.name, "initial_state", self.initial_state, data)))

    def first_data(self, payload: Data) -> Data:
        """Check what a record is created from, and return its data."""
        found = called(self.name, "initial_data", self.initial_data, payload)
        return as_data(self.name, "initial_data", found)

    @cached_property
    def triggers(self) -> tuple[str, ...]:
        """Every trigger, in the order of the table."""
        return tuple(dict.fromkeys(str(row.trigger) for row in self.transitions))

    @cached_property
    def digest(self) -> str:
        """A short hash of the table: the log says which one decided."""
        return hash_of(outline_of(self))

    @cached_property
    def effects(self) -> Mapping[str, Effect]:
        """Every effect that a record of this machine may owe, by name."""
        return {effect.name: effect for effect in self._owes()}

    def _owes(self) -> Iterator[Effect]:
        # Who has subscribed to the end of a record is notified of it.
        found = [NOTIFICATION, self.mirror, self.inbox]
        # A record whose countdown has ended owes a cascade, and so may a child that is lost.
        found += [CASCADE if self._kinds or self.close_trigger else None]
        found += [row.effect for row in self.transitions]
        for stage in self.stages:
            found += stage.owes()
        yield from (effect for effect in found if effect)

    def waits_for(self, countdown: str) -> Children | Prerequisites | None:
        """Return what a countdown of this name counts."""
        return next((kind for kind in self._kinds if kind.countdown == countdown), None)

    @property
    def _kinds(self) -> tuple[Children | Prerequisites, ...]:
        return (*self.children, self.prerequisites) if self.prerequisites else self.children

    def bounds(self, data: Data) -> Bounds:
        """Return what the family of a root with this data may use."""
        return amounts_of(self.name, "bounds", self.bookkeeping.bounds, data)

    def counters(self, data: Data) -> Mapping[str, int]:
        """Return the counters that follow from a record's data."""
        return amounts_of(self.name, "counters", self.bookkeeping.counters, data)

    @cached_property
    def _stage_of(self) -> Mapping[str, Stage]:
        return {str(stage.state): stage for stage in self.stages}

    @cached_property
    def _cells(self) -> Mapping[tuple[str, str], tuple[Transition, ...]]:
        cells: dict[tuple[str, str], tuple[Transition, ...]] = {}
        for row in self.transitions:
            cell = (str(row.source), str(row.trigger))
            cells[cell] = (*cells.get(cell, ()), row)
        return cells

    @cached_property
    def followers(self) -> tuple[Transition, ...]:
        """The rows that may follow from a record's data alone, in the order of the table."""
        return tuple(row for row in self.transitions if row.follows)

    def stage(self, state: str) -> Stage:
        """Return the stage of this state. Raises UnknownStateError."""
        if state not in self._stage_of:
            raise UnknownStateError(self.name, state)
        return self._stage_of[state]

    def rows(self, state: str, trigger: str) -> tuple[Transition, ...]:
        """Return the rows for a trigger in a state, in the order in which guards are asked."""
        return self._cells.get((state, trigger), ())

    def legal(self, state: str) -> tuple[str, ...]:
        """Return the triggers that have a row in this state. Raises UnknownStateError."""
        self.stage(state)
        return tuple(trigger for trigger in self.triggers if (state, trigger) in self._cells)

    def reads(self, state: str, trigger: str) -> bool:
        """Whether deciding a trigger in a state needs facts of other records."""
        return any(row.reads for row in self.rows(state, trigger))

    def admit(self, trigger: str, payload: Data) -> Data:
        """Check a trigger's payload and return it as JSON-able data."""
        if trigger not in self.triggers:
            raise UnknownTriggerError(self.name, trigger, self.triggers)
        model = self.payloads.get(trigger)
        if not isinstance(payload, Mapping):
            raise InvalidPayloadError(trigger, [f"it is {type(payload).__name__}, not an object"])
        if model is None:
            if payload:
                raise InvalidPayloadError(trigger, [f"takes no payload, got {sorted(payload)}"])
            return {}
        return called(self.name, f"the model of {trigger}", validated, model, trigger, payload)

    def decide(
        self, record: Record, trigger: str, payload: Data, facts: Data = NO_FACTS
    ) -> Decision:
        """Turn the first row whose guard agrees into a decision to commit.

        Raises IllegalTransitionError where there is no row, IgnoredError where there is none on
        purpose, GuardRefusedError where the guards of all rows disagree.
        """
        rows = self.rows(record.state, trigger)
        if not rows and trigger in self.ignores:
            why, legal = self.ignores[trigger], self.legal(record.state)
            raise IgnoredError(self.name, record.state, trigger, legal, why)
        if not rows:
            raise IllegalTransitionError(self.name, record.state, trigger, self.legal(record.state))
        ask = Ask(record.data, payload, facts)
        for row in rows:
            if row.guard is None or called(self.name, f"the guard of {row.cell}", row.guard, ask):
                return self._follow(row, record, ask)
        refusal = rows[-1].refusal
        if not isinstance(refusal, str):
            refusal = called(self.name, f"the refusal of {rows[-1].cell}", refusal, ask)
        raise GuardRefusedError(self.name, record.state, trigger, refusal)

    def exhausts(self, state: str) -> bool:
        """Whether using up the attempts of this state's effect fires a trigger."""
        stage = self.stage(state)
        return isinstance(stage, Active) and stage.exhausted is not None

    def explain(
        self, record: Record, trigger: str, payload: Data, facts: Data = NO_FACTS
    ) -> Explanation:
        """Say what firing this trigger now would do, or why it would not."""
        try:
            after = self.decide(record, trigger, payload, facts).after
        except (IllegalTransitionError, GuardRefusedError) as refusal:
            return Explanation(trigger, record.state, "", str(refusal))
        moves = f"{trigger} would take {record.id} from {record.state} to {after.state}"
        says = filter(None, (moves, self.stage(after.state).left_over(after.data)))
        return Explanation(trigger, record.state, after.state, "; ".join(says))

    def decide_creation(self, record: Record) -> Decision:
        """Return the decision that creates this record, in the state that it has."""
        return called(self.name, f"a function of {record.state}", self._created, record)

    def _created(self, record: Record) -> Decision:
        stage = self.stage(record.state)
        return Decision(
            before=record,
            after=replace(record, title=self.titled(record.data)),
            trigger=CREATED,
            payload=record.data,
            facts=NO_FACTS,
            mode=Mode.LEAVE,
            owes=entered_effects(self.name, stage, record.data) + self.mirrored(stage, record.data),
            timers=self._due(stage.timers, stage, record.data),
            waits=stage.waits_for_person(record.data),
            ends=False,
            interrupts=False,
            explanation=None,
            says=sentence(self.says.get(CREATED, ""), record.data),
            shares=shares_changed(NOTHING, stage.shares(record.data)),
        )

    def _follow(self, row: Transition, record: Record, ask: Ask) -> Decision:
        data, update = record.data, f"the update of {row.cell}"
        if row.update:
            data = as_data(self.name, update, called(self.name, update, row.update, ask))
        return called(self.name, f"a function of {row.target}", self._moved, row, record, ask, data)

    def _moved(self, row: Transition, record: Record, ask: Ask, data: Data) -> Decision:
        left, entered = self.stage(record.state), self.stage(str(row.target))
        version = Version(record.version + 1)
        mode, stays = row.mode, row.mode is Mode.INTERNAL
        owes = own = row.owes()
        if row.asks_anew:
            owes += asked(entered, data)
        elif not stays:
            owes += entered_effects(self.name, entered, data, carried=mode is Mode.CARRY)
            owes += left_effects(left, record.data, entered, data)
        owes += self.mirrored(entered, data)
        kind, children = self._spawned(row, record.id, version, data)
        timers = entered.reminders if row.asks_anew else () if stays else entered.timers
        return Decision(
            before=record,
            after=replace(
                record,
                state=str(row.target),
                version=version,
                data=data,
                title=self.titled(data),
                entered=record.entered if stays and not row.asks_anew else version,
            ),
            trigger=str(row.trigger),
            payload=ask.payload,
            facts=ask.facts,
            mode=mode,
            owes=owes,
            timers=self._due(timers, entered, data),
            waits=entered.waits_for_person(data),
            ends=isinstance(entered, Terminal),
            interrupts=row.interrupts,
            explanation=called(self.name, f"the explanation of {row.cell}", row.explain, ask)
            if row.explain
            else None,
            says=row.said(self.says, ask.payload, entered.left_over(data)),
            by=row.by,
            names_proposal=row.names_proposal,
            asks_anew=row.asks_anew,
            shares=shares_changed(left.shares(record.data), entered.shares(data)),
            counts_as_ended=not stays and entered.is_counted_as_ended(data),
            bounds=self.bounds(data) if row.bounds else UNBOUND,
            deltas=self._deltas(record.data, data),
            spawns=kind,
            children=children,
            own=own,
        )

    def titled(self, data: Data) -> str:
        """Return the title of a record with this data."""
        return called(self.name, "the title", lambda: as_title(self.title(data)))

    def _due(self, timers: Iterable[Timer], stage: Stage, data: Data) -> tuple[TimerDue, ...]:
        names = ((each, f"the timer {each.name} of {stage.state}") for each in timers)
        found = (called(self.name, name, each.due, data) for each, name in names)
        return tuple(due for due in found if due is not None)

    def _spawned(
        self, row: Transition, parent: str, version: int, data: Data
    ) -> tuple[Children | None, tuple[NewChild, ...]]:
        kind = self.waits_for(row.spawns)
        if not isinstance(kind, Children):
            return None, ()
        listed = data.get(kind.listed_in)
        if not isinstance(listed, Sequence) or isinstance(listed, str):
            raise InvalidPayloadError(str(row.trigger), [f"the data has no list {kind.listed_in}"])
        return kind, kind.listed(data, child_ids(parent, version, len(listed)))

    def _deltas(self, before: Data, after: Data) -> Mapping[str, int]:
        if self.bookkeeping.counters is None:
            return {}
        old, new = self.counters(before), self.counters(after)
        # An unchanged counter is listed too, so that no caller may count under its name.
        return {name: new[name] - old[name] for name in new}

    def mirrored(self, stage: Stage | None = None, data: Data = NO_FACTS) -> tuple[Owed, ...]:
        """Return the effect that shows a record elsewhere; where it goes on at once, a late one."""
        is_late = stage is not None and goes_on(stage, data)
        return (Owed(self.mirror, Kind.TRANSITION, is_late=is_late),) if self.mirror else ()
