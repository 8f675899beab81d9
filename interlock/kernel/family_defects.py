"""Finds where a table could lose its children, leave them at work, or never learn of their end."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from interlock.kernel.effect import AWAITING, CASCADE, NOTIFICATION
from interlock.kernel.payload import RecordEnd
from interlock.kernel.table import (
    PERSON,
    PRODUCER,
    AwaitedEnd,
    Mode,
    Stage,
    Terminal,
    Transition,
    Waiting,
)
from interlock.kernel.traits import Children, Prerequisites

CLOSERS = frozenset({CASCADE.name, PERSON, PRODUCER})  # a cascade may fire what these may
TALLY, CHILD_LOST, REASON = ("tally",), ("child", "state"), ("reason",)
RECORD_END = tuple(RecordEnd.model_fields)
Payloads = Mapping[str, type[BaseModel]]
Kinds = Sequence[Children | Prerequisites]


def family_defects(
    kinds: Kinds,
    close_trigger: str,
    stages: Sequence[Stage],
    rows: Sequence[Transition],
    payloads: Payloads,
    retired: Collection[str] = (),
) -> Iterator[str]:
    """Name every way in which the records of a table could fail their family.

    Nothing need spawn the children of a state that is `retired`.
    """
    names = [kind.countdown for kind in kinds]
    yield from (f"{name} is counted twice" for name in sorted({*names}) if names.count(name) > 1)
    spawned = {row.spawns for row in rows if row.spawns}
    left = {one.countdown for one in stages if isinstance(one, Waiting) and one.state in retired}
    yield from (f"no row spawns {name}" for name in sorted({*names} - spawned - left))
    for name in sorted(spawned - {*names}):
        yield f"a row spawns {name}, and the machine names no children of that countdown"
    for kind in kinds:
        end = f"the end of {kind.countdown}"
        yield from _wrong_payload(end, kind.advance_trigger, TALLY, payloads)
        if isinstance(kind, Children):
            lost = f"the loss of one of {kind.countdown}"
            yield from _wrong_payload(lost, kind.lost_trigger, CHILD_LOST, payloads)
            yield from _wrong_counting(kind, stages, rows)
    for stage in stages:
        if isinstance(stage, Waiting) and stage.awaited:
            yield from _wrong_awaiting(stage, stage.awaited, rows, payloads)
    if close_trigger:
        yield from _wrong_closing(close_trigger, rows, payloads)


def _wrong_payload(
    why: str, trigger: str, given: Sequence[str], payloads: Payloads
) -> Iterator[str]:
    """Name the fields that a trigger is fired with and its payload does not take, or lacks."""
    if not trigger:
        return
    fields: Mapping[str, Any] = payloads[trigger].model_fields if trigger in payloads else {}
    if missing := [name for name in given if name not in fields]:
        yield f"{why} fires {trigger} with {', '.join(missing)}, which its payload does not take"
    yield from _lacking(why, trigger, given, payloads)


def _lacking(why: str, trigger: str, given: Sequence[str], payloads: Payloads) -> Iterator[str]:
    fields = payloads[trigger].model_fields if trigger in payloads else {}
    if needed := {name for name, field in fields.items() if field.is_required()} - {*given}:
        yield f"{why} fires {trigger} without {', '.join(sorted(needed))}, which its payload needs"


def _wrong_counting(
    kind: Children, stages: Sequence[Stage], rows: Sequence[Transition]
) -> Iterator[str]:
    """Name the states that count children, and cannot take their end, or leave them at work."""
    ends = {str(stage.state): stage for stage in stages if isinstance(stage, Terminal)}
    for stage in stages:
        if not (isinstance(stage, Waiting) and stage.countdown == kind.countdown):
            continue
        own = [row for row in rows if row.source == stage.state]
        ending = [row for row in own if row.trigger == kind.advance_trigger]
        if not ending or ending[-1].guard or not _may_fire(ending[-1], {CASCADE.name}):
            yield (
                f"{stage.state} has no unguarded last row for {kind.advance_trigger} that "
                f"{CASCADE} may fire (the end of {kind.countdown})"
            )
        lost = [row for row in own if row.trigger == kind.lost_trigger]
        if kind.lost_trigger and not any(_may_fire(row, {CASCADE.name}) for row in lost):
            yield (
                f"{stage.state} has no row for {kind.lost_trigger} that {CASCADE} may fire (the "
                f"loss of one of {kind.countdown})"
            )
        for row in own:
            end = ends.get(str(row.target))
            closes = end is None or CASCADE in (row.effect, *end.owes())
            if not closes and row.trigger != kind.advance_trigger:
                yield (
                    f"{stage.state}/{row.trigger} ends the record while its {kind.countdown} are "
                    f"at work, and owes no {CASCADE} that closes them"
                )


def _wrong_awaiting(
    stage: Waiting, awaited: AwaitedEnd, rows: Sequence[Transition], payloads: Payloads
) -> Iterator[str]:
    """Name why a state could not take the end of the record that it waits for."""
    why = f"the end that {stage.state} waits for"
    yield from _wrong_payload(why, awaited.trigger, RECORD_END, payloads)
    own = [row for row in rows if (row.source, row.trigger) == (stage.state, awaited.trigger)]
    for effect in (AWAITING, NOTIFICATION):
        if not any(_may_fire(row, {effect.name}) for row in own):
            yield f"{stage.state} has no row for {awaited.trigger} that {effect} may fire ({why})"


def _wrong_closing(trigger: str, rows: Sequence[Transition], payloads: Payloads) -> Iterator[str]:
    for row in rows:
        if row.trigger != trigger:
            continue
        if not _may_fire(row, CLOSERS):
            yield f"{row.source}/{trigger} closes a child, and {CASCADE} may not fire it"
        if row.mode is Mode.INTERNAL:
            yield f"{row.source}/{trigger} closes a child, and stays in its state"
    yield from _lacking("the end of a parent", trigger, REASON, payloads)


def _may_fire(row: Transition, actors: Iterable[str]) -> bool:
    return not row.by or bool({*actors} & {*row.by})
