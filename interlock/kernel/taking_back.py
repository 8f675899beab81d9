"""Takes a record back to the table that was applied before, of which the outline is kept. Pure.

What was renamed gets its old name. Data that were made newer are those from before the move; they
cannot be taken back once the record has gone on with them. The title is that from before the move,
too; once the record has gone on, it stays until the older table makes one at the next change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from interlock.kernel.decision import Decision
from interlock.kernel.effect import OF_ANY_MACHINE, Kind
from interlock.kernel.errors import CallError
from interlock.kernel.event import MOVED, NO_FACTS, Event
from interlock.kernel.machine import Machine
from interlock.kernel.moving import Move, Renamed
from interlock.kernel.record import Entry, Record, Version
from interlock.kernel.table import Mode, Terminal

Outline = Mapping[str, Any]


class CannotBeTakenBackError(CallError):
    """A record has gone on by the newer table in a way for which the older one has no place."""

    def __init__(self, record_id: str, why: str) -> None:
        super().__init__(f"{record_id} {why}")
        self.record_id, self.why = record_id, why


def taken_back(
    machine: Machine, outline: Outline, record: Record, latest: Event | None
) -> Move | None:
    """Return what takes a record back to an older table, None if it fits that already.

    `machine` is the newer one, `record` is as it is stored, and `latest` is the event of its
    version. Raises CannotBeTakenBackError.
    """
    move = latest if latest and latest.trigger == MOVED else None
    state = _state_before(machine, outline, record, move)
    before = move.payload.get("before", {}) if move else {}
    data, schema = record.data, record.schema
    if schema > outline["schema"]:
        ended = isinstance(machine.stage(record.state), Terminal)
        if "data" in before:
            data, schema = before["data"], before["schema"]
        elif not ended:
            raise CannotBeTakenBackError(record.id, f"has gone on with data of schema {schema}")
    if (state, schema) == (record.state, record.schema):
        return None
    title = {"title": before["title"]} if "title" in before else {}
    after = replace(
        record, state=state, version=Version(record.version + 1), data=data, schema=schema, **title
    )
    decision = Decision(
        before=record,
        after=after,
        trigger=MOVED,
        payload={"data": data, "schema": schema, **title},
        facts=NO_FACTS,
        mode=Mode.INTERNAL,
        owes=(),
        timers=(),
        waits=False,
        ends=False,
        interrupts=False,
        explanation=None,
        says="taken back to the table that was applied before",
    )
    return Move(decision, _renames(outline, record, state) if state != record.state else {})


def _state_before(machine: Machine, outline: Outline, record: Record, move: Event | None) -> str:
    known = {each["name"] for each in outline["states"]}
    if move and move.source in known and machine.renamed.get(move.source) == record.state:
        return move.source
    if record.state in known:
        return record.state
    names = [
        old for old, new in machine.renamed.items() if new == record.state and str(old) in known
    ]
    if len(names) != 1:
        called = f"was called {' or '.join(names)}" if names else "is not in the table of before"
        raise CannotBeTakenBackError(record.id, f"is {record.state}, which {called}")
    return str(names[0])


def _renames(outline: Outline, record: Record, state: str) -> dict[str, Renamed]:
    stage = next(each for each in outline["states"] if each["name"] == state)
    name = stage["entry_effect"]
    found: dict[str, Renamed] = {}
    for entry in record.entries:
        if name and _is_of_state(entry) and entry.name != stage.get("later_effect"):
            slots = _slots(outline, entry, name)
            fires = bool(stage.get("exhausted"))
            found[entry.suffix] = Renamed(name, slots, bool(stage.get("once")), fires)
    return found


def _is_of_state(entry: Entry) -> bool:
    is_common = entry.state == "draining" or entry.name in OF_ANY_MACHINE
    return entry.kind is Kind.STATE and not is_common


def _slots(outline: Outline, entry: Entry, name: str) -> str:
    """Return the name of the slots that an effect needs by its older name; the key stays."""
    if not (outline["effects"].get(name) or {}).get("concurrency"):
        return ""
    _, colon, key = entry.slots.partition(":")
    return f"{outline['name']}.{name}{colon}{key}"
