"""A machine is a table; `decide` reads it. It knows no clock, no randomness and no I/O."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property

from pydantic import BaseModel

from interlock.kernel.defects import defects_of
from interlock.kernel.effect import CASCADE, Effect, Kind
from interlock.kernel.errors import (
    GuardRefusedError,
    IgnoredError,
    IllegalTransitionError,
    InvalidPayloadError,
    MachineDefectError,
    UnknownTriggerError,
)
from interlock.kernel.event import NO_FACTS
from interlock.kernel.payload import validated
from interlock.kernel.record import Record, RecordId, Version
from interlock.kernel.table import (
    UNBOUND,
    Active,
    Ask,
    Bounds,
    Data,
    Mode,
    Owed,
    Shares,
    Stage,
    Terminal,
    TimerDue,
    Transition,
    Waiting,
    always,
)

Shared = tuple[str, frozenset[str]]
NOTHING: Shared = ("", frozenset())


@dataclass(frozen=True, slots=True)
class Decision:
    """What must be committed together, or not at all. Delays are ms from the commit."""

    before: Record
    after: Record
    trigger: str
    payload: Data
    facts: Data
    mode: Mode
    owes: tuple[Owed, ...]
    timers: tuple[TimerDue, ...]
    waits: bool
    ends: bool
    interrupts: bool
    explanation: Data | None
    by: tuple[str, ...] = ()
    sees: bool = False
    shares: Shares | None = None
    departs: bool = False
    bounds: Bounds = UNBOUND  # what the record's family may use from now on, where that changes
    deltas: Mapping[str, int] = field(default_factory=dict)  # how its sums change


@dataclass(frozen=True, slots=True)
class Explanation:
    """What firing a trigger would do: lead to `target`, or be refused ('' then), and why."""

    trigger: str
    state: str
    target: str
    sentence: str


@dataclass(frozen=True)
class Machine:
    """The table of one kind of lifecycle, checked when it is made.

    `begins` is what a producer fires right after birth, `cancels` what a person's cancel fires (the
    first that is legal), `closes` what a closing parent fires, `advances` what its last child does.
    """

    name: str
    stages: tuple[Stage, ...]
    transitions: tuple[Transition, ...]
    birth: Callable[[Data], Data] = dict
    payloads: Mapping[str, type[BaseModel]] = field(default_factory=dict)
    cancels: tuple[str, ...] = ()
    closes: str = ""
    advances: str = ""
    hands_off: str = ""
    begins: str = ""
    part: Callable[[Data, Data], tuple[Data, int | None]] | None = None  # a child's birth, its cap
    begins_in: Callable[[Data], StrEnum] | None = None  # where it is born, if not always the same
    relies: Callable[[Record], tuple[RecordId, ...]] | None = None  # others whose facts it reads
    gate: Callable[[str, Data, Data], str] | None = None  # why an effect's holder may not fire it
    place: Callable[[Data], str] | None = None  # the machine that its local effects run on, or ''
    bounds: Callable[[Data], Bounds] | None = None  # what its family may use
    mirror: Effect | None = None  # owed by every commit: it shows the record somewhere else
    mirrored: Callable[[Data], bool] = always  # whether that is owed
    frees: Effect | None = None  # owed on leaving a state that keeps a slot for one that does not
    loses: str = ""  # fired at those who wait for a record that did not end well
    lasting: tuple[str, ...] = ()  # countdowns that go on whatever state the record is in
    ignores: Mapping[str, str] = field(default_factory=dict)  # without a row noted, and why
    mail: Callable[[Data], Data] | None = None  # checks what is posted to a record's inbox
    drains: Effect | None = None  # owed by what is posted
    ids: tuple[str, str] | None = None  # what an id must match, and that in words
    under: tuple[str, ...] = ()  # what the segments of an id above a record's own stand for
    within: bool = False  # whether the record above must be there, and not have ended
    sums: Callable[[Data], Mapping[str, int]] | None = (
        None  # what its counters say of its data; 0 at birth
    )
    chronicled: bool = False  # whether its family's commits are listed in the order they came in
    schema: int = 1

    def __post_init__(self) -> None:
        if found := tuple(defects_of(self.stages, self.transitions)):
            raise MachineDefectError(self.name, found)

    @property
    def shape(self) -> str:
        """How an id of a record looks that no parent bears."""
        if not self.under:
            return "a child is born by its parent; leave out the /"
        names = "/".join(f"<{name}>" for name in (*self.under, self.name))
        return f"write it as {names}; what is below that is born by its parent"

    @property
    def initial(self) -> Stage:
        """The stage a record is born in, unless its data say otherwise."""
        return self.stages[0]

    def birthplace(self, data: Data) -> Stage:
        """Return the stage that a record with this data is born in."""
        return self.stage(str(self.begins_in(data))) if self.begins_in else self.initial

    @cached_property
    def triggers(self) -> tuple[str, ...]:
        """Every trigger, in the order of the table."""
        return tuple(dict.fromkeys(str(row.trigger) for row in self.transitions))

    @cached_property
    def digest(self) -> str:
        """A short hash of the table: the log says which one decided."""
        rows = "|".join(f"{r.source},{r.trigger},{r.target},{r.mode}" for r in self.transitions)
        return hashlib.sha256(rows.encode()).hexdigest()[:12]

    @cached_property
    def effects(self) -> Mapping[str, Effect]:
        """Every effect that this machine may owe, by name."""
        # Who empties a countdown owes its record a cascade, whatever its table says.
        own = [self.mirror, self.frees, self.drains, CASCADE if self.advances else None]
        own += [row.effect for row in self.transitions]
        owed = [effect for effect in own if effect]
        for stage in self.stages:
            owed += [effect for effect in stage.owes() if effect]
        return {effect.name: effect for effect in owed}

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

    def stage(self, state: str) -> Stage:
        """Return what the kernel owes in this state."""
        return self._stage_of[state]

    def rows(self, state: str, trigger: str) -> tuple[Transition, ...]:
        """Return the rows of one cell, in the order in which they are asked."""
        return self._cells.get((state, trigger), ())

    def legal(self, state: str) -> tuple[str, ...]:
        """Return the triggers that have a row in this state."""
        return tuple(trigger for trigger in self.triggers if (state, trigger) in self._cells)

    def reads(self, state: str, trigger: str) -> bool:
        """Whether deciding this cell needs facts of the record's ancestors."""
        return any(row.reads for row in self.rows(state, trigger))

    def admit(self, trigger: str, payload: Data) -> Data:
        """Check a trigger's payload; the answer is JSON-able. Bad input changes nothing."""
        if trigger not in self.triggers:
            raise UnknownTriggerError(self.name, trigger, self.triggers)
        model = self.payloads.get(trigger)
        if not isinstance(payload, Mapping):
            raise InvalidPayloadError(trigger, [f"it is {type(payload).__name__}, not an object"])
        if model is None:
            if payload:
                raise InvalidPayloadError(trigger, [f"takes no payload, got {sorted(payload)}"])
            return {}
        return validated(model, trigger, payload)

    def decide(
        self, record: Record, trigger: str, payload: Data, facts: Data = NO_FACTS
    ) -> Decision:
        """Turn the first row that agrees into a decision to commit.

        Raises IllegalTransitionError where the cell is empty, IgnoredError where it is so on
        purpose, GuardRefusedError where all rows say no.
        """
        rows = self.rows(record.state, trigger)
        if not rows and trigger in self.ignores:
            why, legal = self.ignores[trigger], self.legal(record.state)
            raise IgnoredError(self.name, record.state, trigger, legal, why)
        if not rows:
            raise IllegalTransitionError(self.name, record.state, trigger, self.legal(record.state))
        ask = Ask(record.data, payload, facts)
        for row in rows:
            if row.guard is None or row.guard(ask):
                return self._follow(row, record, ask)
        raise GuardRefusedError(self.name, record.state, trigger, rows[-1].refusal)

    def exhausts(self, state: str) -> bool:
        """Whether using up the attempts of this state's effect fires a trigger."""
        stage = self.stage(state)
        return isinstance(stage, Active) and stage.exhausted is not None

    def explain(
        self, record: Record, trigger: str, payload: Data, facts: Data = NO_FACTS
    ) -> Explanation:
        """Say what firing this trigger now would do, or why it would not."""
        try:
            target = self.decide(record, trigger, payload, facts).after.state
        except (IllegalTransitionError, GuardRefusedError) as refusal:
            return Explanation(trigger, record.state, "", str(refusal))
        sentence = f"{trigger} would take {record.id} from {record.state} to {target}"
        return Explanation(trigger, record.state, target, sentence)

    def born(self, record: Record) -> Decision:
        """Decide the birth of a record: version 1, where it stands."""
        stage = self.stage(record.state)
        return Decision(
            before=record,
            after=record,
            trigger="created",
            payload=record.data,
            facts=NO_FACTS,
            mode=Mode.LEAVE,
            owes=self._entered(stage, record.data) + self._mirrored(record.data),
            timers=stage.due(record.data),
            waits=stage.waits_for_person(record.data),
            ends=False,
            interrupts=False,
            explanation=None,
            shares=_shares(NOTHING, stage.shares(record.data)),
        )

    def _follow(self, row: Transition, record: Record, ask: Ask) -> Decision:
        left, entered = self.stage(record.state), self.stage(str(row.target))
        version = Version(record.version + 1)
        data = row.update(ask) if row.update else record.data
        mode = row.mode
        stays = mode is Mode.INTERNAL
        owes = row.owes()
        if not stays:
            owes += self._entered(entered, data, carried=mode is Mode.CARRY)
            owes += self._left(left, record.data, entered, data)
        owes += self._mirrored(data)
        return Decision(
            before=record,
            after=replace(
                record,
                state=str(row.target),
                version=version,
                data=data,
                entered=record.entered if stays else version,
            ),
            trigger=str(row.trigger),
            payload=ask.payload,
            facts=ask.facts,
            mode=mode,
            owes=owes,
            timers=() if stays else entered.due(data),
            waits=entered.waits_for_person(data),
            ends=isinstance(entered, Terminal),
            interrupts=row.interrupts,
            explanation=row.explain(ask) if row.explain else None,
            by=row.by,
            sees=row.sees,
            shares=None if stays else _shares(left.shares(record.data), entered.shares(data)),
            departs=not stays and bool(entered.departs and entered.departs(data)),
            bounds=self.bounds(data) if row.bounds and self.bounds else UNBOUND,
            deltas=self._deltas(record.data, data),
        )

    def _deltas(self, before: Data, after: Data) -> Mapping[str, int]:
        if self.sums is None:
            return {}
        was, now = self.sums(before), self.sums(after)
        # Also what did not change: nobody else may count under these names.
        return {name: now[name] - was[name] for name in now}

    def _entered(self, stage: Stage, data: Data, *, carried: bool = False) -> tuple[Owed, ...]:
        if isinstance(stage, Active) and not carried:
            effect = stage.effect_for(data)
            once = stage.once(data) if stage.once else False
            return (Owed(effect, Kind.STATE, once),) if effect else ()
        if isinstance(stage, Waiting):
            asks = (stage.notifies,) if stage.asks(data) else ()
            offers = (stage.offers,) if stage.offered(data) else ()
            return tuple(Owed(one, Kind.TRANSITION) for one in (*asks, *offers) if one)
        if isinstance(stage, Terminal):
            return tuple(Owed(one, Kind.TRANSITION) for one in stage.owes() if one)
        return ()

    def _mirrored(self, data: Data) -> tuple[Owed, ...]:
        if self.mirror is None or not self.mirrored(data):
            return ()
        return (Owed(self.mirror, Kind.TRANSITION),)

    def _left(self, left: Stage, before: Data, entered: Stage, data: Data) -> tuple[Owed, ...]:
        freed = self.frees and left.keeps_slot(before) and not entered.keeps_slot(data)
        owed = (Owed(self.frees, Kind.TRANSITION),) if self.frees and freed else ()
        # A surface that showed a card must take it away; entering another wait does that itself.
        if not (isinstance(left, Waiting) and left.notifies and left.asks(before)):
            return owed
        tells = isinstance(entered, Waiting) and entered.notifies and entered.asks(data)
        return owed if tells else (*owed, Owed(left.notifies, Kind.TRANSITION))


def _shares(before: Shared, after: Shared) -> Shares | None:
    (left, held), (line, wanted) = before, after
    if before == after:
        return None
    return Shares(left, line, tuple(sorted(held - wanted)), tuple(sorted(wanted - held)))
