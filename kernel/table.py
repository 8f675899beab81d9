"""The parts of a table: stages (a state, and what the kernel owes it) and rows. Pure values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum, auto
from typing import Any, TypedDict, Unpack

from interlock.kernel.effect import Effect, Kind
from interlock.kernel.question import shall_begin
from interlock.kernel.reason import TransitionReason

Data = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Ask:
    """What guards, updates and explanations may look at."""

    data: Data
    payload: Data
    facts: Data


class Mode(StrEnum):
    """What a commit does with the effects and timers of the state it leaves."""

    LEAVE = auto()
    CARRY = auto()
    INTERNAL = auto()
    EXTERNAL = auto()


@dataclass(frozen=True, slots=True)
class Timer:
    """A named delay in a stage: ms from entry, or None for no timer.

    When due it fires `trigger` with `payload`, or with `unbegun_payload` where no worker ever
    claimed the state's effect; then `unbegun_deltas` take back what was counted too early. Without
    a trigger it reminds: the stall sweep owes `effect` again, writes a note and sets the timer
    again, each time with a longer delay.
    """

    name: str
    delay: Callable[[Data], int | None]
    trigger: StrEnum | None = None
    effect: Effect | None = None
    payload: Data = field(default_factory=dict)
    unbegun_payload: Data | None = None
    unbegun_deltas: Callable[[Data], Mapping[str, int]] | None = None

    def payload_when(self, *, begun: bool) -> Data:
        """Return the payload that the timer fires its trigger with."""
        return self.payload if begun or self.unbegun_payload is None else self.unbegun_payload

    def deltas_when(self, data: Data, *, begun: bool) -> Mapping[str, int]:
        """Return how the record's counters change when the timer fires."""
        return {} if begun or self.unbegun_deltas is None else self.unbegun_deltas(data)


@dataclass(frozen=True, slots=True)
class TimerDue:
    """A timer as a decision sets it."""

    name: str
    delay_ms: int


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a family may use: money in micro-dollars, runs of workers. None sets no bound."""

    cap: int | None = None
    runs: int | None = None


UNBOUND = Bounds()


@dataclass(frozen=True, slots=True)
class Shares:
    """What a decision changes of what a family shares: queues ('' is none) and held names."""

    left: str
    line: str
    frees: tuple[str, ...]
    takes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Owed:
    """An effect as a decision owes it. `once`: not restarted from its beginning when begun."""

    effect: Effect
    kind: Kind
    once: bool = False
    countdown: str = ""


@dataclass(frozen=True, slots=True)
class Stage:
    """A state of a machine, and what the kernel owes a record in it."""

    state: StrEnum
    timers: tuple[Timer, ...] = ()
    external: str = ""  # how a record comes into a state that no row enters
    queue: Callable[[Data], str] | None = None  # where it waits to be claimed, by priority and age
    holds: Callable[[Data], tuple[str, ...]] | None = None  # names no other of its family may hold
    counts_as_ended: Callable[[Data], bool] | None = None  # for the countdown of its parent
    has_slot: Callable[[Data], bool] | None = None  # whether others may wait for its slot

    def waits_for_person(self, data: Data) -> bool:
        """Whether a person's decision is what moves a record on from here."""
        del data
        return False

    def due(self, data: Data) -> tuple[TimerDue, ...]:
        """Return the timers that an entry starts."""
        delays = ((timer.name, timer.delay(data)) for timer in self.timers)
        return tuple(TimerDue(name, ms) for name, ms in delays if ms is not None)

    def shares(self, data: Data) -> tuple[str, frozenset[str]]:
        """Return the queue that a record waits in here, or '', and the names that it holds."""
        queue = self.queue(data) if self.queue else ""
        return queue, frozenset(self.holds(data) if self.holds else ())

    def is_counted_as_ended(self, data: Data) -> bool:
        """Whether the countdown of the parent counts the record as ended, though it may go on."""
        return self.counts_as_ended is not None and self.counts_as_ended(data)

    def uses_slot(self, data: Data) -> bool:
        """Whether a record has a slot here that it must give back when it leaves."""
        return self.has_slot is not None and self.has_slot(data)

    def timer(self, name: str) -> Timer | None:
        """Return the timer of this name."""
        return next((timer for timer in self.timers if timer.name == name), None)

    def owes(self) -> Iterator[Effect | None]:
        """Name every effect that this stage may owe."""
        yield from (timer.effect for timer in self.timers)


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
    """Someone else must fire the next trigger: a person, a producer, or the last child."""

    asks: Callable[[Data], bool] = always  # whether it is a person who must
    notifies: Effect | None = None  # owed on entry and on leaving, while a person is asked
    offers: Effect | None = None  # owed on entry: it tries to move the record on
    offered: Callable[[Data], bool] = always  # whether that is owed
    card: str = ""  # the kind of its card
    question: Callable[[Data], str] = shall_begin  # what the card asks
    shows: str = ""  # the proposal that the card shows, of those in the record's data
    affordances: tuple[tuple[str, str], ...] = ()  # what a person may choose -> trigger
    countdown: str = ""

    def waits_for_person(self, data: Data) -> bool:
        """Whether a person's decision is what moves a record on from here."""
        return self.asks(data)

    def owes(self) -> Iterator[Effect | None]:
        """Name every effect that this stage may owe."""
        yield from (timer.effect for timer in self.timers)
        yield self.notifies
        yield self.offers


@dataclass(frozen=True, slots=True)
class Active(Stage):
    """An effect is at work and fires one of `outcomes`; None where it is carried in."""

    effect: Effect | None = None
    outcomes: tuple[StrEnum, ...] = ()
    later: Effect | None = None  # instead of `effect` once `is_later` agrees
    is_later: Callable[[Data], bool] = always
    crash: StrEnum | None = None  # fired when an effect that cannot restart is lost
    exhausted: StrEnum | None = None  # fired when its attempts are used up; None: quarantine
    once: Callable[[Data], bool] | None = None  # whether a lost effect cannot restart

    def effect_for(self, data: Data) -> Effect | None:
        """Return the effect that an entry with this data starts."""
        return self.later if self.later and self.is_later(data) else self.effect

    def owes(self) -> Iterator[Effect | None]:
        """Name every effect that this stage may owe."""
        yield from (timer.effect for timer in self.timers)
        yield self.effect
        yield self.later


@dataclass(frozen=True, slots=True)
class Terminal(Stage):
    """Nothing ever happens here again."""

    tells: Effect | None = None  # owed on entry: it tells those who wait for this end
    clears: Effect | None = None  # owed on entry: it clears away what is left behind
    is_success: bool = False  # to its subscribers; any other end is a loss to them

    def owes(self) -> Iterator[Effect | None]:
        """Name every effect that this stage may owe."""
        yield self.tells
        yield self.clears


class Loop(StrEnum):
    """What a row whose source is its target does."""

    NONE = auto()
    INTERNAL = auto()  # stays: effect, timers, token and proposal go on
    EXTERNAL = auto()  # leaves and enters


@dataclass(frozen=True, slots=True)
class Transition:
    """One row. The guards of a cell's rows are asked in order; the first that agrees is followed.

    `by` names who may fire it, `ours` why it is there where the published table lacks it. `reason`
    is the published reason of what happened, where the payload gives none.
    """

    source: StrEnum
    trigger: StrEnum
    target: StrEnum
    guard: Callable[[Ask], bool] | None = None
    update: Callable[[Ask], Data] | None = None
    explain: Callable[[Ask], Mapping[str, Any]] | None = None
    refusal: str = ""  # the last row of a cell says why nothing happens
    effect: Effect | None = None
    spawns: str = ""  # the countdown that the effect fills
    carry: bool = False
    loop: Loop = Loop.NONE
    interrupts: bool = False  # whether the effect at work is asked to come to its end
    reads: bool = False  # whether it asks for facts of other records
    by: tuple[str, ...] = ()
    names_proposal: bool = False  # whether a person must name the proposal that was seen
    bounds: bool = False  # whether its update may change what the record's family may use
    ours: str = ""
    reason: TransitionReason | None = None
    reason_by_hand: TransitionReason | None = None  # instead, where a person or producer fired it

    def owes(self) -> tuple[Owed, ...]:
        """Return the effect that following this row owes."""
        if self.effect is None:
            return ()
        kind = Kind.SPAWN if self.spawns else Kind.TRANSITION
        return (Owed(self.effect, kind, countdown=self.spawns),)

    @property
    def mode(self) -> Mode:
        """How the commit treats the effects and timers of the state it leaves."""
        if self.carry:
            return Mode.CARRY
        match self.loop:
            case Loop.INTERNAL:
                return Mode.INTERNAL
            case Loop.EXTERNAL:
                return Mode.EXTERNAL
            case Loop.NONE:
                return Mode.LEAVE


# Who fires rows besides effects: people and programs outside, and the two sweeps.
PERSON, PRODUCER = "person", "producer"
ORPHANS, STALLS = "orphans", "stalls"

Row = Callable[[StrEnum], Transition]  # a row that `rows` has yet to give its source


class RowFields(TypedDict, total=False):
    """The fields of a row that not every row has; `Transition` says what each means."""

    guard: Callable[[Ask], bool]
    update: Callable[[Ask], Data]
    explain: Callable[[Ask], Mapping[str, Any]]
    refusal: str
    effect: Effect
    spawns: str
    interrupts: bool
    reads: bool
    names_proposal: bool
    bounds: bool
    ours: str
    reason: TransitionReason
    reason_by_hand: TransitionReason


def rows(sources: StrEnum | Sequence[StrEnum], *each: Row) -> tuple[Transition, ...]:
    """Return the rows of one state, or of several states: each row once for each of them.

    A table is written as the rows of one state after the other:

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
    return lambda source: Transition(source, trigger, target, by=actors, carry=True, **fields)


def stay(trigger: StrEnum, actors: tuple[str, ...], **fields: Unpack[RowFields]) -> Row:
    """Return a row that stays in its state; effect, timers and proposal go on."""
    return lambda state: Transition(state, trigger, state, by=actors, loop=Loop.INTERNAL, **fields)


def reenter(trigger: StrEnum, actors: tuple[str, ...], **fields: Unpack[RowFields]) -> Row:
    """Return a row that leaves its state and enters it again: effect and timers begin anew."""
    return lambda state: Transition(state, trigger, state, by=actors, loop=Loop.EXTERNAL, **fields)


def by(*actors: Effect | str) -> tuple[str, ...]:
    """Name who may fire a row: effects, and who acts besides them."""
    return tuple(str(actor) for actor in actors)
