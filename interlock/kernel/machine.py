"""A machine: the table of one kind of record, and how a decision follows from it. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Any

from pydantic import BaseModel

from interlock.kernel.decision import Decision, Explanation
from interlock.kernel.defects import (
    defects_of,
    lax_answers,
    missing_fields,
    unclear_effects,
    wrong_sentences,
)
from interlock.kernel.effect import CASCADE, Effect, Kind
from interlock.kernel.errors import (
    GuardRefusedError,
    IgnoredError,
    IllegalTransitionError,
    InvalidIdError,
    InvalidPayloadError,
    MachineDefectError,
    UnknownTriggerError,
)
from interlock.kernel.event import NO_FACTS
from interlock.kernel.family_defects import family_defects
from interlock.kernel.payload import validated
from interlock.kernel.question import as_title, title_in
from interlock.kernel.reason import sentence
from interlock.kernel.record import Record, RecordId, Version, child_ids
from interlock.kernel.table import (
    CREATED,
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
    Transition,
    Waiting,
)
from interlock.kernel.tags import tags_in
from interlock.kernel.traits import (
    Bookkeeping,
    Children,
    Facts,
    FamilyInbox,
    NewChild,
    Placement,
    Prerequisites,
)

Shared = tuple[str, frozenset[str]]  # the queue a record waits in ('' is none), the names it holds
NOTHING: Shared = ("", frozenset())


@dataclass(frozen=True)
class Machine:
    """The table of one kind of record, checked when it is made.

    A family is a root record with all records whose ids begin with the root's id.
    """

    name: str
    stages: tuple[Stage, ...]
    transitions: tuple[Transition, ...]
    payloads: Mapping[str, type[BaseModel]] = field(default_factory=dict)
    schema: int = 1

    title: Callable[[Data], str] = title_in  # its first line names a record in lists and cards
    tags: Callable[[Data], Iterable[str]] = tags_in  # those that are no tags are left out
    initial_data: Callable[[Data], Data] = dict  # checks what a record is created from
    initial_state: Callable[[Data], StrEnum] | None = None  # where the data decide it
    first_trigger: str = ""  # a producer fires it right after the creation
    cancel_triggers: tuple[str, ...] = ()  # a person's cancel fires the first legal one
    ignores: Mapping[str, str] = field(default_factory=dict)  # trigger: why it is only noted
    says: Mapping[str, str] = field(default_factory=dict)  # trigger: why it moved a record

    placement: Placement = field(default_factory=Placement)
    bookkeeping: Bookkeeping = field(default_factory=Bookkeeping)
    children: tuple[Children, ...] = ()  # each kind of children that a record may have
    prerequisites: Prerequisites | None = None
    close_trigger: str = ""  # fired at a record whose parent has ended
    facts: Facts | None = None
    inbox: FamilyInbox | None = None
    mirror: Effect | None = None  # owed after each commit: it shows the record elsewhere

    def __post_init__(self) -> None:
        ends = (name for kind in self._kinds for name in (kind.advance_trigger, kind.lost_trigger))
        named = (*ends, self.close_trigger, self.first_trigger)
        triggers = (*named, *self.cancel_triggers, *self.ignores, *self.payloads)
        rows, payloads = self.transitions, self.payloads
        found = [
            *defects_of(self.stages, rows, triggers),
            *family_defects(self._kinds, self.close_trigger, self.stages, rows, payloads),
            *missing_fields(self.stages, self.cancel_triggers, payloads),
            *lax_answers(self.stages, payloads),
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

    def check_id(self, new_id: str, *, is_child: bool = False) -> None:
        """Refuse what is no id of this machine's records. A child has its id from its parent."""
        prefix, wanted = self.placement.id_prefix, self.placement.id_format
        if not is_child and new_id.count("/") != len(prefix):
            names = "/".join(f"<{name}>" for name in (*prefix, self.name))
            form = f"write it as {names}; what is below is created by its parent"
            alone = "a parent creates its children by itself; leave out the /"
            raise InvalidIdError(new_id, form if prefix else alone)
        if wanted and not re.fullmatch(wanted.pattern, new_id):
            raise InvalidIdError(new_id, wanted.in_words)

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
        rows = "|".join(
            f"{r.source},{r.trigger},{r.target},{r.mode}{',anew' if r.asks_anew else ''}"
            for r in self.transitions
        )
        return hashlib.sha256(rows.encode()).hexdigest()[:12]

    @cached_property
    def effects(self) -> Mapping[str, Effect]:
        """Every effect that a record of this machine may owe, by name."""
        return {effect.name: effect for effect in self._owes()}

    def _owes(self) -> Iterator[Effect]:
        found = [self.mirror, self.inbox.effect if self.inbox else None]
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

    def is_lasting(self, countdown: str) -> bool:
        """Whether a countdown goes on when its record changes its state."""
        return self.prerequisites is not None and countdown == self.prerequisites.countdown

    def bounds(self, data: Data) -> Bounds:
        """Return what the family of a root with this data may use."""
        return self.bookkeeping.bounds(data) if self.bookkeeping.bounds else UNBOUND

    def counters(self, data: Data) -> Mapping[str, int]:
        """Return the counters that follow from a record's data."""
        return self.bookkeeping.counters(data) if self.bookkeeping.counters else {}

    def fact_sources(self, record: Record) -> tuple[RecordId, ...]:
        """Return the records besides its ancestors that decisions about a record read."""
        return self.facts.sources(record) if self.facts else ()

    def holder_refusal(self, trigger: str, data: Data, facts: Data) -> str:
        """Return why, by the facts, the holder of an effect may not fire a trigger, or ''."""
        return self.facts.holder_refusal(trigger, data, facts) if self.facts else ""

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
        """Return the stage of this state."""
        return self._stage_of[state]

    def rows(self, state: str, trigger: str) -> tuple[Transition, ...]:
        """Return the rows for a trigger in a state, in the order in which guards are asked."""
        return self._cells.get((state, trigger), ())

    def legal(self, state: str) -> tuple[str, ...]:
        """Return the triggers that have a row in this state."""
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
        return validated(model, trigger, payload)

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
            if row.guard is None or row.guard(ask):
                return self._follow(row, record, ask)
        refusal = rows[-1].refusal
        why = refusal if isinstance(refusal, str) else refusal(ask)
        raise GuardRefusedError(self.name, record.state, trigger, why)

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
        """Return the decision that creates this record, in the state that it has."""
        stage = self.stage(record.state)
        return Decision(
            before=record,
            after=replace(record, title=as_title(self.title(record.data))),
            trigger=CREATED,
            payload=record.data,
            facts=NO_FACTS,
            mode=Mode.LEAVE,
            owes=self._entered(stage, record.data) + self.mirrored(),
            timers=stage.due(record.data),
            waits=stage.waits_for_person(record.data),
            ends=False,
            interrupts=False,
            explanation=None,
            says=sentence(self.says.get(CREATED, ""), record.data),
            shares=_shares(NOTHING, stage.shares(record.data)),
        )

    def _follow(self, row: Transition, record: Record, ask: Ask) -> Decision:
        left, entered = self.stage(record.state), self.stage(str(row.target))
        version = Version(record.version + 1)
        data = row.update(ask) if row.update else record.data
        mode = row.mode
        stays = mode is Mode.INTERNAL
        owes = row.owes()
        if row.asks_anew:
            owes += self._asked(entered, data)
        elif not stays:
            owes += self._entered(entered, data, carried=mode is Mode.CARRY)
            owes += self._left(left, record.data, entered, data)
        owes += self.mirrored()
        timers = entered.reminders_due(data) if row.asks_anew else entered.due(data)
        kind, children = self._spawned(row, record.id, version, data)
        return Decision(
            before=record,
            after=replace(
                record,
                state=str(row.target),
                version=version,
                data=data,
                title=as_title(self.title(data)),
                entered=record.entered if stays and not row.asks_anew else version,
            ),
            trigger=str(row.trigger),
            payload=ask.payload,
            facts=ask.facts,
            mode=mode,
            owes=owes,
            timers=timers if row.asks_anew or not stays else (),
            waits=entered.waits_for_person(data),
            ends=isinstance(entered, Terminal),
            interrupts=row.interrupts,
            explanation=row.explain(ask) if row.explain else None,
            says=sentence(row.says or self.says.get(str(row.trigger), ""), ask.payload),
            by=row.by,
            names_proposal=row.names_proposal,
            asks_anew=row.asks_anew,
            shares=_shares(left.shares(record.data), entered.shares(data)),
            counts_as_ended=not stays and entered.is_counted_as_ended(data),
            bounds=self.bounds(data) if row.bounds else UNBOUND,
            deltas=self._deltas(record.data, data),
            spawns=kind,
            children=children,
        )

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

    def _entered(self, stage: Stage, data: Data, *, carried: bool = False) -> tuple[Owed, ...]:
        if isinstance(stage, Active) and not carried:
            effect = stage.effect_for(data)
            once = stage.once(data) if stage.once else False
            return (Owed(effect, Kind.STATE, once),) if effect else ()
        if isinstance(stage, Waiting):
            offers = stage.offers if stage.offered(data) else None
            offered = (Owed(offers, Kind.TRANSITION),) if offers else ()
            return (*self._asked(stage, data), *offered)
        if isinstance(stage, Terminal):
            return tuple(Owed(effect, Kind.TRANSITION) for effect in stage.owes() if effect)
        return ()

    def _asked(self, stage: Stage, data: Data) -> tuple[Owed, ...]:
        if not (isinstance(stage, Waiting) and stage.notifies and stage.waits_for_person(data)):
            return ()
        return (Owed(stage.notifies, Kind.TRANSITION),)

    def mirrored(self) -> tuple[Owed, ...]:
        """Return the effect that shows a record somewhere else, if the machine has one."""
        return (Owed(self.mirror, Kind.TRANSITION),) if self.mirror else ()

    def _left(self, left: Stage, before: Data, entered: Stage, data: Data) -> tuple[Owed, ...]:
        owed: tuple[Owed, ...] = ()
        if left.slot and left.slot.is_held(before) and not entered.has_slot(data):
            owed = (Owed(left.slot.release, Kind.TRANSITION),)
        # The card of the stage that is left must be withdrawn; the card of the next replaces it.
        asked, asks = self._asked(left, before), self._asked(entered, data)
        return owed if asks else (*owed, *asked)


def _shares(before: Shared, after: Shared) -> Shares | None:
    if before == after:
        return None
    (old_queue, held), (new_queue, wanted) = before, after
    return Shares(old_queue, new_queue, tuple(sorted(held - wanted)), tuple(sorted(wanted - held)))
