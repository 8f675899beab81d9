"""Recomputes a record from its log, which proves that record and log agree.

Each event is followed by the table whose digest it has. The rows of an older table are those of
its outline. Its functions are gone: the data are computed by those of the present table where these
still lead to the hash that the event has, and else they are unknown until an event has them whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from interlock.kernel.errors import KernelError, StoreError
from interlock.kernel.event import MOVED, Event, Note
from interlock.kernel.machine import Machine
from interlock.kernel.moving import state_now
from interlock.kernel.record import Record
from interlock.kernel.store import codec
from interlock.kernel.trigger import CREATED

Outline = Mapping[str, Any]
OutlineOf = Callable[[str], Outline | None]


@dataclass(frozen=True, slots=True)
class Folded:
    """What a log leads to: a record with its state as its last event has it.

    `data_hash` and `table` are those of the last event. Where the data are unknown, those of the
    record are older ones.
    """

    record: Record
    data_hash: str
    table: str
    knows_data: bool


def fold(machine: Machine, lines: Sequence[Event | Note]) -> Record:
    """Recompute a record from its log. Raises StoreError at the first line that does not follow.

    Raises it also if the data that an older table has led to cannot be computed any more.
    """
    folded = follow(machine, lines)
    if not folded.knows_data:
        record = folded.record
        raise StoreError(
            f"{record.id} version {record.version}: an older version of the table has led to its"
            " data, and the present one does not"
        )
    return folded.record


def follow(
    machine: Machine, lines: Sequence[Event | Note], outline_of: OutlineOf = lambda _: None
) -> Folded:
    """Follow a log to its end. Raises StoreError at the first line that does not follow.

    `outline_of` returns the outline of a table by its digest. Where it has none, an event of an
    older table is taken to have followed from the one before it.
    """
    folded: Folded | None = None
    for event in (line for line in lines if isinstance(line, Event)):
        if folded is None:
            folded = _created(machine, event)
            continue
        _check_place(folded.record, event)
        if event.trigger == MOVED:
            folded = _moved(machine, folded.record, event)
        elif event.table == machine.digest:
            folded = _decided(machine, folded, event)
        else:
            folded = _by_another_table(machine, folded, event, outline_of(event.table))
    if folded is None:
        raise StoreError("the log is empty")
    return folded


def _created(machine: Machine, event: Event) -> Folded:
    if event.trigger != CREATED or event.version != 1:
        raise StoreError(f"{event.record_id}: the log does not begin with its creation")
    is_present = event.table == machine.digest
    state = event.target if is_present else state_now(machine, event.target)
    record = Record(event.record_id, machine.name, state, event.version, event.payload)
    try:
        record = machine.decide_creation(record).after
    except (KernelError, *codec.UNREADABLE):
        if is_present:
            raise
    return _checked(replace(record, state=event.target), event)


def _check_place(record: Record, event: Event) -> None:
    if event.version != record.version + 1 or event.source != record.state:
        raise StoreError(
            f"{event.record_id}: version {event.version} from {event.source} does not follow "
            f"version {record.version} in {record.state}"
        )


def _checked(record: Record, event: Event) -> Folded:
    if hash_of(record.data) != event.data_hash:
        raise StoreError(f"{event.record_id} version {event.version}: the data does not follow")
    return Folded(record, event.data_hash, event.table, knows_data=True)


def _moved(machine: Machine, record: Record, event: Event) -> Folded:
    """Go on from a move, which has the whole data, and the title that it has taken back."""
    data, schema = event.payload["data"], event.payload["schema"]
    title = machine.titled(data) if schema == machine.schema else record.title
    title = event.payload.get("title", title)
    after = replace(
        record, state=event.target, version=event.version, data=data, schema=schema, title=title
    )
    return _checked(after, event)


def _decided(machine: Machine, folded: Folded, event: Event) -> Folded:
    """Follow an event by the present table."""
    if not folded.knows_data:
        rows = machine.rows(event.source, event.trigger)
        return _beyond(folded.record, event, known=any(row.target == event.target for row in rows))
    after = machine.decide(folded.record, event.trigger, event.payload, event.facts).after
    if after.state != event.target:
        raise StoreError(
            f"{event.record_id} version {event.version}: the table leads to {after.state}, "
            f"the log says {event.target}"
        )
    return _checked(after, event)


def _by_another_table(
    machine: Machine, folded: Folded, event: Event, outline: Outline | None
) -> Folded:
    known = outline is None or any(_is_by(row, event) for row in outline["rows"])
    beyond = _beyond(folded.record, event, known=known)
    before = replace(folded.record, state=state_now(machine, event.source))
    try:
        after = machine.decide(before, event.trigger, event.payload, event.facts).after
    except (KernelError, *codec.UNREADABLE):
        return beyond
    agrees = after.state == state_now(machine, event.target)
    if not (folded.knows_data and agrees and hash_of(after.data) == event.data_hash):
        return beyond
    return _checked(replace(after, state=event.target), event)


def _is_by(row: Mapping[str, Any], event: Event) -> bool:
    """Whether an event may have followed a row of an outline."""
    cell = row["source"], row["trigger"], row["target"]
    return cell == (event.source, event.trigger, event.target)


def _beyond(record: Record, event: Event, *, known: bool) -> Folded:
    """Return the record after an event of unknown data, if its table is `known` to have its row."""
    if not known:
        raise StoreError(
            f"{event.record_id} version {event.version}: the table {event.table} has no row from "
            f"{event.source} by {event.trigger} to {event.target}"
        )
    entered = record.entered if event.source == event.target else event.version
    after = replace(record, state=event.target, version=event.version, entered=entered)
    return Folded(after, event.data_hash, event.table, knows_data=False)


def hash_of(data: Mapping[str, Any]) -> str:
    """Return the hash of data as events have it."""
    return codec.digest(codec.encode(data, "the data", codec.DATA_BYTES_MAX))


def sums(lines: Sequence[Event | Note]) -> Mapping[str, int]:
    """Return the sum of every delta in a log."""
    totals: dict[str, int] = {}
    for line in lines:
        for name, amount in line.deltas.items():
            totals[name] = totals.get(name, 0) + amount
    return totals
