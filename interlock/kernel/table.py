"""What a table is made of: stages, and the rows between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum, auto
from typing import Any, Generic, TypedDict, Unpack

from pydantic import BaseModel

from interlock.kernel.choice_words import SuggestedAnswer, Words, unsuggested
from interlock.kernel.effect import AWAITING, Effect, Kind
from interlock.kernel.errors import UnknownActorError
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
    """A state of a machine, and what a record has and owes in it."""

    state: StrEnum
    timers: tuple[Timer, ...] = ()
    external: str = ""  # how a record comes into a state that no row enters
    queue: Callable[[Any], str] | None = None  # where it waits to be claimed, by priority and age
    holds: Callable[[Any], tuple[str, ...]] | None = None  # names no other of its family may hold
    counts_as_ended: Callable[[Any], bool] | None = None  # for the countdown of its parent
    slot: Callable[[Any], bool] | None = None  # whether it has one of a number of slots
    slot_release: Effect | None = None  # owed on leaving for a stage in which it has no slot
    outlook: Callable[[Any], str] = nothing  # tells people what follows by itself, or ''
    shown: str = ""  # what people call it; '' is its name, with blanks
    meaning: Meaning | None = None  # where the rest of the table does not tell it

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
    """A stage in which no effect is at work: a call or a timer fires the trigger that leaves it."""

    asks: Callable[[Any], bool] = always  # whether it asks a person; without affordances never
    notifies: Effect | None = None  # owed on entry and on leaving, while a person is asked
    offers: Effect | None = None  # owed on entry: it tries to move the record on
    offered: Callable[[Any], bool] = always  # whether `offers` is owed
    card: str = ""  # the kind of its card
    question: Callable[[Any], str] = shall_begin  # what the card asks
    inspect: Callable[[Any], str] = nothing  # the command that shows what the card is about, or ''
    shows: str = ""  # the proposal that the card shows, of those in the record's data
    affordances: tuple[tuple[str, str], ...] = ()  # each choice of a person, and its trigger
    # What its choices say to people: in every record the same, or by the data.
    words: Words | Callable[[Any], Words] = field(default_factory=dict)
    suggests: Callable[[Any], Iterable[SuggestedAnswer]] = unsuggested  # for one click
    # By trigger, what its answer is on this card: the model of the answer, where the card takes
    # less than the trigger's payload; whether it is offered, where it is not always; and the only
    # values that a field may have, where they depend on the record.
    answers: Mapping[str, type[BaseModel]] = field(default_factory=dict)
    offered_if: Mapping[str, Callable[[Any], bool]] = field(default_factory=dict)
    values: Mapping[str, Callable[[Any], FieldValues]] = field(default_factory=dict)
    countdown: str = ""  # the countdown whose end the record waits for
    awaited: AwaitedEnd | None = None  # the end of another record that the record waits for

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
    """A stage in which an effect is at work, until it fires one of `outcomes`."""

    effect: Effect | None = None  # None where every row into the stage carries one in
    outcomes: tuple[StrEnum, ...] = ()
    later: Effect | None = None  # instead of `effect` once `is_later` agrees
    is_later: Callable[[Any], bool] = always
    crash: StrEnum | None = None  # fired when an effect that cannot restart is lost
    exhausted: StrEnum | None = None  # fired when its attempts are used up; None: quarantine
    over: StrEnum | None = None  # fired when a cap forbids what it needs; None: a card asks
    failures: tuple[StrEnum, ...] = ()  # outcomes that mean, like these two, that it has failed
    once: Callable[[Any], bool] | None = None  # whether a lost effect cannot restart
    slot_key: Callable[[Any], str] | None = None  # what the effect's `concurrency` is counted by

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
    """A stage that no row leaves: the record has ended. Its `outlook` says what it left undone."""

    cleanup: Effect | None = None  # owed on entry: it removes what the record leaves behind
    is_success: bool = False  # to its subscribers; any other end is a loss to them

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
    followed.
    """

    source: StrEnum
    trigger: StrEnum
    target: StrEnum
    guard: Callable[[Ask], bool] | None = None
    update: Callable[[Ask], Data] | None = None
    explain: Callable[[Ask], Mapping[str, Any]] | None = None
    refusal: Refusal = ""  # of the last row of a cell: why no row was followed
    effect: Effect | None = None
    spawns: str = ""  # the countdown that the effect fills
    mode: Mode = Mode.LEAVE
    interrupts: bool = False  # whether the effect at work is asked to come to its end
    reads: bool = False  # whether a decision about it reads facts of other records
    by: tuple[str, ...] = ()  # who may fire it: an effect's holder, a component, people, a sweep
    names_proposal: bool = False  # whether a person must name the proposal that was seen
    asks_anew: bool = False  # of a row that stays: the question is another one from now on
    abandons: bool = False  # of a timer: whether it may leave an effect that is at work
    bounds: bool = False  # whether its update may change what the record's family may use
    ours: str = ""  # why it is there, where the published table lacks it
    guarded: str = ""  # why it asks a guard, where the published row asks none
    reason: TransitionReason | None = None  # the published one, where the payload gives none
    reason_by_hand: TransitionReason | None = None  # instead, where a person or producer fired it
    says: str = ""  # why it moved a record; if empty, what the machine says of its trigger
    # The payload with which the row is fired in the commit that enters its state, without the
    # effect that would fire it; None where the data do not decide that.
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

Row = Callable[[StrEnum], Transition]  # a row without its source, which `rows` gives it


class RowFields(TypedDict, total=False):
    """The optional fields of a row; `Transition` says what each means."""

    guard: Callable[[Ask], bool]
    update: Callable[[Ask], Data]
    explain: Callable[[Ask], Mapping[str, Any]]
    refusal: Refusal
    effect: Effect
    spawns: str
    interrupts: bool
    reads: bool
    names_proposal: bool
    asks_anew: bool
    abandons: bool
    bounds: bool
    ours: str
    guarded: str
    reason: TransitionReason
    reason_by_hand: TransitionReason
    says: str
    follows: Callable[[Any], Data | None]


def rows(sources: StrEnum | Sequence[StrEnum], *each: Row) -> tuple[Transition, ...]:
    """Return the rows of one state, or of several: each row once for each state.

    *rows(State.OPEN,
        move(Trigger.CLAIMED, State.CLAIMED, by(ASSIGNMENT, PERSON), update=claimed),
        stay(Trigger.NOTED, by(PERSON), update=noted),
    ),
    """
    states = (sources,) if isinstance(sources, StrEnum) else sources
    return tuple(row(state) for row in each for state in states)


def move(
    trigger: StrEnum, target: StrEnum, actors: tuple[str, ...], **fields: Unpack[RowFields]
) -> Row:
    """Return a row into another state. The effect at work in the state that is left is revoked."""
    return lambda source: Transition(source, trigger, target, by=actors, **fields)


def carry(
    trigger: StrEnum, target: StrEnum, actors: tuple[str, ...], **fields: Unpack[RowFields]
) -> Row:
    """Return a row into another state, in which the effect at work goes on."""
    return lambda source: Transition(source, trigger, target, by=actors, mode=Mode.CARRY, **fields)


def stay(trigger: StrEnum, actors: tuple[str, ...], **fields: Unpack[RowFields]) -> Row:
    """Return a row that stays in its state. Effect, timers and proposal go on.

    With `asks_anew` the card of the state asks another question from then on: an answer to the
    old one is refused, and reminders begin anew. Timers that fire a trigger go on.
    """
    return lambda state: Transition(state, trigger, state, by=actors, mode=Mode.INTERNAL, **fields)


def reenter(trigger: StrEnum, actors: tuple[str, ...], **fields: Unpack[RowFields]) -> Row:
    """Return a row that leaves its state and enters it again. Effect and timers begin anew."""
    return lambda state: Transition(state, trigger, state, by=actors, mode=Mode.EXTERNAL, **fields)


def by(*actors: Effect | str) -> tuple[str, ...]:
    """Name the effects, people and sweeps that may fire a row. Raises UnknownActorError."""
    for actor in actors:
        if isinstance(actor, str) and actor not in ACTORS:
            raise UnknownActorError(actor, ACTORS)
    return tuple(str(actor) for actor in actors)
