"""How the rows of a table are written: each says what it does to the state that it is in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, TypedDict, Unpack

from interlock.kernel.effect import Effect, Sweeper
from interlock.kernel.errors import UnknownActorError
from interlock.kernel.reason import TransitionReason
from interlock.kernel.table import ACTORS, Ask, Data, Mode, Refusal, Transition

Row = Callable[[StrEnum], Transition]  # a row without its source, which `rows` gives it


class RowFields(TypedDict, total=False):
    """The optional fields of a row; `rows` says what each means."""

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

    Each row takes these fields by name. Of functions that are given an `Ask`: `guard` says whether
    the row is followed, `update` returns the new data, `explain` what the log keeps beside the
    event. `refusal` of the last row of a cell says why no row was followed. `effect` is owed;
    `spawns` is the countdown that it fills. `says` is why the row moved a record, instead of what
    the machine says of its trigger; the `reason` or `summary` of the payload follows by itself.
    `follows` returns, from the data, the payload with which the row is fired in the commit that
    enters its state, without the effect that would fire it; None where the data do not decide that.

    These are True or False:
    - `interrupts`: the effect at work is asked to come to its end
    - `reads`: the decision reads facts of other records (`Machine.fact_sources`)
    - `names_proposal`: a person must name the proposal that was seen
    - `asks_anew`: of a row that stays: its question is another one from now on
    - `abandons`: of a row of a timer: it may leave an effect that is at work
    - `bounds`: the update may change what the record's family may use

    For a table that is published elsewhere: `ours` says why the row is there, and
    `guarded` why it asks a guard, where the published one does not; `reason` is the published
    reason where the payload gives none, `reason_by_hand` where a person or a producer fired it.
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


def by(*actors: Effect | str, sweep: str = "") -> tuple[str, ...]:
    """Name who may fire a row: effects, people, and a `sweep` of the machine's system, by its name.

    No other program can fire as that sweep. Raises UnknownActorError.
    """
    for actor in actors:
        if isinstance(actor, str) and actor not in ACTORS:
            raise UnknownActorError(actor, ACTORS)
    return (*map(str, actors), *([Sweeper(sweep)] if sweep else ()))
