"""A machine is a table; `decide` reads it. Nothing here knows a clock, randomness or I/O."""

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

Shared = tuple[str, frozenset[str]]  # the queue that a record waits in ('' is none), names it holds
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
    names_proposal: bool = False
    shares: Shares | None = None
    counts_as_ended: bool = False
    bounds: Bounds = UNBOUND  # what the record's family may use from now on, where that changes
    deltas: Mapping[str, int] = field(default_factory=dict)  # how the record's counters change


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

    A family is a root record with all records whose ids begin with the root's id.
    """

    name: str
    stages: tuple[Stage, ...]
    transitions: tuple[Transition, ...]
    payloads: Mapping[str, type[BaseModel]] = field(default_factory=dict)
    schema: int = 1

    # Creating a record.
    initial_data: Callable[[Data], Data] = dict  # checks what a record is created from
    initial_state: Callable[[Data], StrEnum] | None = None  # where it is not the first stage's
    first_trigger: str = ""  # a producer fires it right after the creation
    id_format: tuple[str, str] | None = None  # a pattern for ids, and the same in words
    id_prefix: tuple[str, ...] = ()  # what the segments of an id before a record's own name
    needs_parent: bool = False  # whether the record above must be there, and not have ended

    # Parents, children and dependencies.
    child_payload: Callable[[Data, Data], tuple[Data, int | None]] | None = None  # with its cap
    close_trigger: str = ""  # fired at the children of a record that ends
    advance_trigger: str = ""  # fired when the last child or dependency of a countdown has ended
    lasting_countdowns: tuple[str, ...] = ()  # countdowns that no change of the state stops
    dependency_lost_trigger: str = ""  # fired at the dependents of a record that did not end well

    # People.
    cancel_triggers: tuple[str, ...] = ()  # a person's cancel fires the first legal one
    handoff_trigger: str = ""
    ignores: Mapping[str, str] = field(default_factory=dict)  # noted where it has no row, and why

    # Deciding.
    fact_sources: Callable[[Record], tuple[RecordId, ...]] | None = None  # besides its ancestors
    gate: Callable[[str, Data, Data], str] | None = None  # why an effect's holder may not fire it

    # What a family shares, and what is counted.
    bounds: Callable[[Data], Bounds] | None = None  # what the family may use
    slot_release: Effect | None = None  # owed on leaving a state with a slot for one without
    counters: Callable[[Data], Mapping[str, int]] | None = None  # of a record's data; 0 at first
    in_family_log: bool = False  # whether the commits of the family are listed in their order

    # Where effects run, and what each commit owes.
    host: Callable[[Data], str] | None = None  # the computer that local effects run on, or ''
    mirror: Effect | None = None  # owed by every commit: it shows the record somewhere else
    is_mirrored: Callable[[Data], bool] = always  # whether the mirror is owed

    # Mail.
    mail_data: Callable[[Data], Data] | None = None  # checks a message to a record's inbox
    mail_effect: Effect | None = None  # owed by a posted message

    def __post_init__(self) -> None:
        if found := tuple(defects_of(self.stages, self.transitions)):
            raise MachineDefectError(self.name, found)

    @property
    def root_id_form(self) -> str:
        """How to write the id of a record that no parent creates."""
        if not self.id_prefix:
            return "a parent creates its children by itself; leave out the /"
        names = "/".join(f"<{name}>" for name in (*self.id_prefix, self.name))
        return f"write it as {names}; what is below is created by its parent"

    @property
    def initial(self) -> Stage:
        """The stage that a record begins in, unless its data say otherwise."""
        return self.stages[0]

    def initial_stage(self, data: Data) -> Stage:
        """Return the stage that a record with this data begins in."""
        return self.stage(str(self.initial_state(data))) if self.initial_state else self.initial

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
        found = [self.mirror, self.slot_release, self.mail_effect]
        # The commit that empties a countdown owes its record a cascade, whatever the table says.
        found += [CASCADE if self.advance_trigger else None]
        found += [row.effect for row in self.transitions]
        for stage in self.stages:
            found += stage.owes()
        return {effect.name: effect for effect in found if effect}

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
        """Return the rows of one cell, in the order in which their guards are asked."""
        return self._cells.get((state, trigger), ())

    def legal(self, state: str) -> tuple[str, ...]:
        """Return the triggers that have a row in this state."""
        return tuple(trigger for trigger in self.triggers if (state, trigger) in self._cells)

    def reads(self, state: str, trigger: str) -> bool:
        """Whether deciding this cell needs facts of other records."""
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
        return validated(model, trigger, payload)

    def decide(
        self, record: Record, trigger: str, payload: Data, facts: Data = NO_FACTS
    ) -> Decision:
        """Turn the first row whose guard agrees into a decision to commit.

        Raises IllegalTransitionError where the cell is empty, IgnoredError where it is empty on
        purpose, GuardRefusedError where the guards of all its rows disagree.
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

    def decide_creation(self, record: Record) -> Decision:
        """Decide the creation of a record in the state that it is given in."""
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
            names_proposal=row.names_proposal,
            shares=None if stays else _shares(left.shares(record.data), entered.shares(data)),
            counts_as_ended=not stays and entered.is_counted_as_ended(data),
            bounds=self.bounds(data) if row.bounds and self.bounds else UNBOUND,
            deltas=self._deltas(record.data, data),
        )

    def _deltas(self, before: Data, after: Data) -> Mapping[str, int]:
        if self.counters is None:
            return {}
        old, new = self.counters(before), self.counters(after)
        # An unchanged counter is listed too: nobody else may count under its name.
        return {name: new[name] - old[name] for name in new}

    def _entered(self, stage: Stage, data: Data, *, carried: bool = False) -> tuple[Owed, ...]:
        if isinstance(stage, Active) and not carried:
            effect = stage.effect_for(data)
            once = stage.once(data) if stage.once else False
            return (Owed(effect, Kind.STATE, once),) if effect else ()
        if isinstance(stage, Waiting):
            asks = (stage.notifies,) if stage.asks(data) else ()
            offers = (stage.offers,) if stage.offered(data) else ()
            return tuple(Owed(effect, Kind.TRANSITION) for effect in (*asks, *offers) if effect)
        if isinstance(stage, Terminal):
            return tuple(Owed(effect, Kind.TRANSITION) for effect in stage.owes() if effect)
        return ()

    def _mirrored(self, data: Data) -> tuple[Owed, ...]:
        if self.mirror is None or not self.is_mirrored(data):
            return ()
        return (Owed(self.mirror, Kind.TRANSITION),)

    def _left(self, left: Stage, before: Data, entered: Stage, data: Data) -> tuple[Owed, ...]:
        owed: tuple[Owed, ...] = ()
        if self.slot_release and left.uses_slot(before) and not entered.uses_slot(data):
            owed = (Owed(self.slot_release, Kind.TRANSITION),)
        # A surface that shows a card must take it away; entering another wait does that itself.
        if not (isinstance(left, Waiting) and left.notifies and left.asks(before)):
            return owed
        replaced = isinstance(entered, Waiting) and entered.notifies and entered.asks(data)
        return owed if replaced else (*owed, Owed(left.notifies, Kind.TRANSITION))


def _shares(before: Shared, after: Shared) -> Shares | None:
    if before == after:
        return None
    (old_queue, held), (new_queue, wanted) = before, after
    return Shares(old_queue, new_queue, tuple(sorted(held - wanted)), tuple(sorted(wanted - held)))
