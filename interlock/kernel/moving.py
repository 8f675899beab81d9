"""Takes a record that an older version of its table has left to the present one. Pure.

A move is a commit of its own, with a line in the log. The record stays where it is: what has
another name gets it, and the data become those of the present schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from interlock.kernel.calling import as_data, called
from interlock.kernel.decision import Decision
from interlock.kernel.effect import OF_ANY_MACHINE, Kind
from interlock.kernel.event import MOVED, NO_FACTS
from interlock.kernel.machine import Machine
from interlock.kernel.owing import entered_effects
from interlock.kernel.record import Entry, Record, RecordContent, Version
from interlock.kernel.table import Active, Mode, Owed, Stage, Terminal

Read = TypeVar("Read", bound=RecordContent)


@dataclass(frozen=True, slots=True)
class Renamed:
    """What the entry of an effect has from now on. `slots` are those that it needs, or ''."""

    name: str
    slots: str
    once: bool
    fires_exhausted: bool


@dataclass(frozen=True, slots=True)
class Move:
    """The commit that moves a record, and the effects that it owes under other names."""

    decision: Decision
    renames: Mapping[str, Renamed]


def is_older(machine: Machine, record: RecordContent) -> bool:
    """Whether an older version of the table has left a record, and this one can move it."""
    renamed = bool(record.was) or record.state in machine.renamed
    return renamed or record.schema < machine.schema


def state_now(machine: Machine, state: str) -> str:
    """Return the present name of a state."""
    return machine.renamed.get(state, state)


def data_now(machine: Machine, data: Mapping[str, Any], schema: int) -> Mapping[str, Any]:
    """Return data of an older schema as those of the present one. Raises TableFunctionError."""
    if schema >= machine.schema or machine.migrate is None:
        return data
    found = called(machine.name, "migrate", machine.migrate, data, schema)
    return as_data(machine.name, "migrate", found)


def as_read(machine: Machine, record: Read) -> Read:
    """Return a record as the present table reads it before it is moved. Its schema stays.

    `record` is as it is stored. Raises TableFunctionError.
    """
    if not is_older(machine, record):
        return record
    data = data_now(machine, record.data, record.schema)
    return replace(with_state_now(machine, record), data=data)


def with_state_now(machine: Machine, record: Read) -> Read:
    """Return a record, which is as it is stored, with the present name of its state."""
    state = state_now(machine, record.state)
    return record if state == record.state else replace(record, state=state, was=record.state)


def move_of(machine: Machine, record: Record) -> Move | None:
    """Return what moves a record to the present table, None if it is there.

    `record` is as it is stored. Raises TableFunctionError, UnknownStateError.
    """
    if not is_older(machine, record):
        return None
    data = data_now(machine, record.data, record.schema)
    stage = machine.stage(state_now(machine, record.state))
    after = replace(
        record,
        state=str(stage.state),
        version=Version(record.version + 1),
        data=data,
        schema=machine.schema,
        title=machine.titled(data),
    )
    decision = Decision(
        before=record,
        after=after,
        trigger=MOVED,
        payload=_payload(record, after),
        facts=NO_FACTS,
        mode=Mode.INTERNAL,
        owes=(),
        timers=(),
        waits=stage.waits_for_person(data),
        ends=False,
        interrupts=False,
        explanation=None,
        says=_says(machine, record, after),
    )
    renames = _renames(machine, record, stage, data) if record.state != after.state else {}
    return Move(decision, renames)


def _payload(before: Record, after: Record) -> dict[str, Any]:
    """Return the data that folding goes on from, and what was before, which is taken back."""
    was: dict[str, Any] = {} if before.title == after.title else {"title": before.title}
    if before.schema != after.schema:
        was |= {"data": before.data, "schema": before.schema}
    found = {"data": after.data, "schema": after.schema}
    return {**found, "before": was} if was else found


def _says(machine: Machine, record: Record, after: Record) -> str:
    parts = [f"{record.state} is called {after.state} now"] if record.state != after.state else []
    if record.schema < machine.schema:
        parts.append(f"its data are of schema {machine.schema} now")
    return "; ".join(parts)


def _renames(
    machine: Machine, record: Record, stage: Stage, data: Mapping[str, Any]
) -> dict[str, Renamed]:
    """Return the entries of the effects that have another name by the present table."""
    owed = {each.kind: each for each in entered_effects(machine.name, stage, data)}
    found: dict[str, Renamed] = {}
    for entry in record.entries:
        if other := _now(machine, entry, stage, owed):
            fires = entry.kind is Kind.STATE and machine.exhausts(str(stage.state))
            found[entry.suffix] = Renamed(other.effect.name, other.slots, other.once, fires)
    return found


def _now(machine: Machine, entry: Entry, stage: Stage, owed: Mapping[Kind, Owed]) -> Owed | None:
    """Return the effect that an entry is of by the present table, None if it stays as it is."""
    if entry.state == "draining" or entry.name in OF_ANY_MACHINE:
        return None
    if entry.kind is Kind.STATE and isinstance(stage, Active):
        return owed.get(Kind.STATE)
    if isinstance(stage, Terminal) and stage.cleanup and entry.name not in machine.effects:
        return Owed(stage.cleanup, Kind.TRANSITION)
    return None
