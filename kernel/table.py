"""The parts of a table: stages (a state, and what the kernel owes it) and rows; pure values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum, auto
from typing import Any

from interlock.kernel.effect import Effect, Kind

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
    """A named delay in a stage: ms from entry, or None for none.

    When due it fires `trigger` with `payload`, or with `unbegun` where nobody ever took up the
    state's effect; without a trigger it reminds: the stall sweep owes `effect` again, writes a note
    and sets the timer anew, at doubling distances.
    """

    name: str
    delay: Callable[[Data], int | None]
    trigger: StrEnum | None = None
    effect: Effect | None = None
    payload: Data = field(default_factory=dict)
    unbegun: Data | None = None
    undoes: Callable[[Data], Mapping[str, int]] | None = None  # what then was counted too early

    def said(self, *, begun: bool) -> Data:
        """Return what it fires its trigger with."""
        return self.payload if begun or self.unbegun is None else self.unbegun

    def undone(self, data: Data, *, begun: bool) -> Mapping[str, int]:
        """Return what it takes back of what was counted."""
        return {} if begun or self.undoes is None else self.undoes(data)


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
    """What a decision changes of what a family shares: lines ('' is none) and names."""

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
    """A state of a machine."""

    state: StrEnum
    timers: tuple[Timer, ...] = ()
    external: str = ""  # who enters a state that no row enters
    line: Callable[[Data], str] | None = None  # where it waits to be taken, by priority, then age
    holds: Callable[[Data], tuple[str, ...]] | None = None  # what no other of its family may hold
    departs: Callable[[Data], bool] | None = None  # whether its parent counts it as ended already
    keeps: Callable[[Data], bool] | None = None  # whether it has a slot that others may wait for

    def waits_for_person(self, data: Data) -> bool:
        """Whether a person's decision is what moves a record on from here."""
        del data
        return False

    def due(self, data: Data) -> tuple[TimerDue, ...]:
        """Return the timers that an entry starts."""
        delays = ((timer.name, timer.delay(data)) for timer in self.timers)
        return tuple(TimerDue(name, ms) for name, ms in delays if ms is not None)

    def shares(self, data: Data) -> tuple[str, frozenset[str]]:
        """Return the line that a record stands in here, or '', and the names that it holds."""
        line = self.line(data) if self.line else ""
        return line, frozenset(self.holds(data) if self.holds else ())

    def keeps_slot(self, data: Data) -> bool:
        """Whether a record has a slot here that it must give back when it leaves."""
        return self.keeps is not None and self.keeps(data)

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


@dataclass(frozen=True, slots=True)
class Waiting(Stage):
    """Someone else must fire the next trigger: a person, a producer, or the last child."""

    asks: Callable[[Data], bool] = always  # whether it is a person who must
    notifies: Effect | None = None  # owed on entry and on leaving while a person is asked
    offers: Effect | None = None  # owed on entry: it brings the record further, or who may
    offered: Callable[[Data], bool] = always  # whether that is owed
    card: str = ""
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
    once: Callable[[Data], bool] | None = None

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

    tells: Effect | None = None  # owed on entry: others wait for this end
    clears: Effect | None = None  # owed on entry: what is left behind is cleared away

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
    """One row. Rows of a cell are asked in order; the first whose guard agrees is followed.

    `ours` gives the reason of a row that the published table lacks. `by` names who may fire it;
    `sees` asks of a person to name the proposal that was seen.
    """

    source: StrEnum
    trigger: StrEnum
    target: StrEnum
    guard: Callable[[Ask], bool] | None = None
    update: Callable[[Ask], Data] | None = None
    explain: Callable[[Ask], Mapping[str, Any]] | None = None
    refusal: str = ""
    effect: Effect | None = None
    spawns: str = ""
    carry: bool = False
    loop: Loop = Loop.NONE
    interrupts: bool = False
    reads: bool = False
    by: tuple[str, ...] = ()
    sees: bool = False
    bounds: bool = False  # its update may change what the record's family may use
    ours: str = ""

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
