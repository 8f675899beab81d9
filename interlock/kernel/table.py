"""What a table is made of: stages, and the rows between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum, auto
from typing import Any, Generic

from pydantic import BaseModel

from interlock.kernel.choice_words import Words
from interlock.kernel.effect import AWAITING, Effect, Kind
from interlock.kernel.meaning import Meaning
from interlock.kernel.question import nothing, shall_begin
from interlock.kernel.reason import TransitionReason, moved, sentence
from interlock.kernel.record import D
from interlock.kernel.timer import Timer, TimerDue

# Functions of a table are given Any, so that each may name the TypedDict of its machine's data.
Data = Mapping[str, Any]
FieldValues = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Ask(Generic[D]):
    """What the guards, updates and explanations of rows are given to read.

    These are the record's data, the payload of the trigger, and by id the facts of other records.
    `found` keeps what one of them has worked out for the others, so that it is decided once.
    `Ask[JobData]` has data of that type.
    """

    data: D
    payload: Data
    facts: Data
    found: dict[object, Any] = field(default_factory=dict, compare=False, repr=False)


# Why a guard refuses: always the same sentence, or one about the record and the payload.
Refusal = str | Callable[[Ask], str]


class Mode(StrEnum):
    """What following a row does with the effect at work in its source, and with its timers."""

    LEAVE = auto()  # ends them; the row leads into another state
    CARRY = auto()  # takes the effect along into another state, and ends the timers
    INTERNAL = auto()  # keeps them, and the proposal: the row stays in its state
    EXTERNAL = auto()  # ends them and begins new ones: the row leaves its state and enters it again


# The most that a record and all below it may use, by the name of what is counted: `spent` is money
# in micro-dollars, `runs` are runs of workers, and other names are free. None sets no cap.
Bounds = Mapping[str, int | None]
UNBOUND: Bounds = {}


@dataclass(frozen=True, slots=True)
class Shares:
    """The queues that a record leaves and enters ('' is none), the names it frees and takes."""

    left_queue: str
    entered_queue: str
    frees: tuple[str, ...]
    takes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Owed:
    """An effect that a decision makes its record owe. With `once` it is never restarted."""

    effect: Effect
    kind: Kind
    once: bool = False
    countdown: str = ""
    slots: str = ""  # the name of the slots of which it needs one to be at work
    is_late: bool = False  # whether a sweep publishes it, if the next commit does not replace it


@dataclass(frozen=True, slots=True)
class AwaitedEnd:
    """The end of another record, of any machine, for which a record may wait in a stage.

    The trigger is fired with a `RecordEnd`.
    """

    record_id: Callable[[Any], str]  # of the record whose end is awaited; '' while there is none
    trigger: StrEnum


@dataclass(frozen=True, slots=True)
class Stage:
    """A state of a machine, and what a record has and owes in it.

    Every function of a stage is given the data of a record. `external` says how a record comes into
    a state that no row enters. `queue` returns the name of the queue in which a record waits to be
    claimed, by priority and age; `holds` the names that no other record of its family may hold
    meanwhile. `counts_as_ended` says whether the countdown of the parent counts the record here as
    ended; `slot` whether it has one of a number of slots, and `slot_release` is owed when it leaves
    for a stage in which it has none. `outlook` tells people what follows by itself, or returns ''.
    `shown` is what people call the state; '' is its name, with blanks. `meaning` is given where the
    rest of the table does not tell it.
    """

    state: StrEnum
    timers: tuple[Timer, ...] = ()
    external: str = ""
    queue: Callable[[Any], str] | None = None
    holds: Callable[[Any], tuple[str, ...]] | None = None
    counts_as_ended: Callable[[Any], bool] | None = None
    slot: Callable[[Any], bool] | None = None
    slot_release: Effect | None = None
    outlook: Callable[[Any], str] = nothing
    shown: str = ""
    meaning: Meaning | None = None

    def waits_for_person(self, data: Data) -> bool:
        """Whether a person's decision is what moves a record on from here."""
        del data
        return False

    def due(self, data: Data) -> tuple[TimerDue, ...]:
        """Return the timers that entering this stage starts."""
        return tuple(due for timer in self.timers if (due := timer.due(data)) is not None)

    @property
    def reminders(self) -> tuple[Timer, ...]:
        """The timers that a question which is asked anew starts again."""
        return tuple(timer for timer in self.timers if timer.trigger is None)

    def left_over(self, data: Data) -> str:
        """Return what the log and an explanation say of what an end leaves undone, or ''."""
        del data
        return ""

    def shares(self, data: Data) -> tuple[str, frozenset[str]]:
        """Return the queue that a record waits in here, or '', and the names that it holds."""
        queue = self.queue(data) if self.queue else ""
        return queue, frozenset(self.holds(data) if self.holds else ())

    def is_counted_as_ended(self, data: Data) -> bool:
        """Whether the countdown of the parent counts the record as ended, though it may go on."""
        return self.counts_as_ended is not None and self.counts_as_ended(data)

    def has_slot(self, data: Data) -> bool:
        """Whether a record has a slot here."""
        return self.slot is not None and self.slot(data)

    def timer(self, name: str) -> Timer | None:
        """Return the timer of this name."""
        return next((timer for timer in self.timers if timer.name == name), None)

    def owes(self) -> Iterator[Effect | None]:
        """Name every effect that this stage may make a record owe."""
        yield from (timer.effect for timer in self.timers)
        yield self.slot_release


def always(data: Data) -> bool:
    """Agree, whatever the data."""
    del data
    return True


def never(data: Data) -> bool:
    """Disagree, whatever the data."""
    del data
    return False


@dataclass(frozen=True, slots=True)
class Waiting(Stage):
    """A stage in which no effect is at work: a call or a timer fires the trigger that leaves it.

    `affordances` are the choices of a person, each with its trigger; `asks` says whether a record
    asks a person for one, and `notifies` is then owed on entry and on leaving. The card that the
    person gets has a kind, `card`, and a `question`; it shows the result of the command `inspect`,
    and the proposal of the name `shows` in the record's data. `words` say what the choices mean, by
    choice, and suggest answers: in every record the same, or by its data.

    Of an answer, by its trigger: `answers` has its model, where the card takes less than the
    trigger's payload; `offered_if` says whether it is offered, where it is not always; `values`
    returns the only values that its fields may have, where they depend on the record.

    `offers` is owed on entry, if `offered` agrees: it tries to move the record on. `countdown` is
    the countdown whose end the record waits for, `awaited` the end of another record. `Stage` of
    interlock.kernel.table explains the fields that all stages have.
    """

    asks: Callable[[Any], bool] = always
    notifies: Effect | None = None
    offers: Effect | None = None
    offered: Callable[[Any], bool] = always
    card: str = ""
    question: Callable[[Any], str] = shall_begin
    inspect: Callable[[Any], str] = nothing
    shows: str = ""
    affordances: tuple[tuple[str, str], ...] = ()
    words: Words | Callable[[Any], Words] = field(default_factory=dict)
    answers: Mapping[str, type[BaseModel]] = field(default_factory=dict)
    offered_if: Mapping[str, Callable[[Any], bool]] = field(default_factory=dict)
    values: Mapping[str, Callable[[Any], FieldValues]] = field(default_factory=dict)
    countdown: str = ""
    awaited: AwaitedEnd | None = None

    def waits_for_person(self, data: Data) -> bool:
        """Whether a person's decision is what moves a record on from here."""
        return bool(self.affordances) and self.asks(data)

    def offered_choices(self, data: Data) -> tuple[tuple[str, str], ...]:
        """Return the choices that the card of a record with this data offers, with triggers."""
        return tuple(
            (choice, trigger)
            for choice, trigger in self.affordances
            if self.offered_if.get(trigger, always)(data)
        )

    def choice_words(self, data: Data) -> Words:
        """Return what the choices of a record with this data say, by choice."""
        return self.words(data) if callable(self.words) else self.words

    def field_values(self, trigger: str, data: Data) -> FieldValues:
        """Return the only values that fields of an answer may have, by field."""
        return self.values[trigger](data) if trigger in self.values else {}

    def owes(self) -> Iterator[Effect | None]:
        """Name every effect that this stage may make a record owe."""
        yield from Stage.owes(self)
        yield self.notifies
        yield self.offers
        yield AWAITING if self.awaited else None


@dataclass(frozen=True, slots=True)
class Active(Stage):
    """A stage in which an effect is at work, until it fires one of `outcomes`.

    `effect` is owed on entry, or `later` instead once `is_later` agrees; it is None where every row
    into the stage carries an effect in. `failures` are outcomes that mean that it has failed, as
    these do: `crash`, fired when an effect that cannot restart is lost, and `exhausted`, fired when
    its attempts are used up (None: it is quarantined). `over` is fired when a cap forbids what the
    effect needs (None: a card asks). These three say why in `code` and `detail`, where the payload
    of the trigger has these fields. `once` says whether a lost effect cannot restart. `slot_key`
    returns the key by which the effect's `concurrency` is counted. `Stage` of
    interlock.kernel.table explains the fields that all stages have.
    """

    effect: Effect | None = None
    outcomes: tuple[StrEnum, ...] = ()
    later: Effect | None = None
    is_later: Callable[[Any], bool] = always
    crash: StrEnum | None = None
    exhausted: StrEnum | None = None
    over: StrEnum | None = None
    failures: tuple[StrEnum, ...] = ()
    once: Callable[[Any], bool] | None = None
    slot_key: Callable[[Any], str] | None = None

    def effect_for(self, data: Data) -> Effect | None:
        """Return the effect that an entry with this data starts."""
        return self.later if self.later and self.is_later(data) else self.effect

    def is_failure(self, trigger: str) -> bool:
        """Whether an effect that fires this trigger has failed."""
        return trigger in (self.crash, self.exhausted, *self.failures)

    def owes(self) -> Iterator[Effect | None]:
        """Name every effect that this stage may make a record owe."""
        yield from Stage.owes(self)
        yield self.effect
        yield self.later


@dataclass(frozen=True, slots=True)
class Terminal(Stage):
    """A stage that no row leaves: the record has ended. Its `outlook` says what it left undone.

    `cleanup` is owed on entry: it removes what the record leaves behind. `is_success`: to its
    parent and its subscribers this end is a success; any other end is a loss to them.
    """

    cleanup: Effect | None = None
    is_success: bool = False

    def left_over(self, data: Data) -> str:
        """Return what the log and an explanation say of what an end leaves undone, or ''."""
        return self.outlook(data)

    def owes(self) -> Iterator[Effect | None]:
        """Name every effect that this stage may make a record owe."""
        yield self.cleanup


@dataclass(frozen=True, slots=True)
class Transition:
    """One row. Several rows may have the same source and trigger: they are one cell.

    The guards of a cell are asked in the order of its rows, and the first row whose guard agrees is
    followed. `rows` of interlock.kernel.rows says what the optional fields are.
    """

    source: StrEnum
    trigger: StrEnum
    target: StrEnum
    guard: Callable[[Ask], bool] | None = None
    update: Callable[[Ask], Data] | None = None
    explain: Callable[[Ask], Mapping[str, Any]] | None = None
    refusal: Refusal = ""
    effect: Effect | None = None
    spawns: str = ""
    mode: Mode = Mode.LEAVE
    interrupts: bool = False
    reads: bool = False
    by: tuple[str, ...] = ()  # who may fire it: an effect's holder, a component, people, a sweep
    names_proposal: bool = False
    asks_anew: bool = False
    abandons: bool = False
    bounds: bool = False
    ours: str = ""
    guarded: str = ""
    reason: TransitionReason | None = None
    reason_by_hand: TransitionReason | None = None
    says: str = ""
    follows: Callable[[Any], Data | None] | None = None

    @property
    def cell(self) -> str:
        """The state and the trigger to which the row belongs, for people."""
        return f"{self.source}/{self.trigger}"

    def said(self, says: Mapping[str, str], payload: Data, left_over: str) -> str:
        """Return why it moved a record, and what an end leaves undone.

        `says` are the sentences of its machine, by trigger.
        """
        why = sentence(self.says or says.get(str(self.trigger), ""), payload)
        if not left_over:
            return why
        return f"{why or moved(self.trigger, self.source, self.target)}; {left_over}"

    def owes(self) -> tuple[Owed, ...]:
        """Return the effect that a record owes once it has followed this row."""
        if self.effect is None:
            return ()
        kind = Kind.SPAWN if self.spawns else Kind.TRANSITION
        return (Owed(self.effect, kind, countdown=self.spawns),)


# Besides effects, people and programs outside fire rows, and the two sweeps.
PERSON, PRODUCER = "person", "producer"
ORPHANS, STALLS = "orphans", "stalls"
ACTORS = (PERSON, PRODUCER, ORPHANS, STALLS)
