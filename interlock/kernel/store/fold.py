"""Recomputes a record from its log, which proves that record and log agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from interlock.kernel.errors import StoreError
from interlock.kernel.event import Event, Note
from interlock.kernel.machine import Machine
from interlock.kernel.record import Record
from interlock.kernel.store import codec
from interlock.kernel.table import CREATED


def fold(machine: Machine, lines: Sequence[Event | Note]) -> Record:
    """Recompute a record from its log. Raises StoreError at the first line that does not follow."""
    record: Record | None = None
    for event in (line for line in lines if isinstance(line, Event)):
        record = _next(machine, record, event) if record else _created(machine, event)
        if (
            codec.digest(codec.encode(record.data, "the data", codec.DATA_BYTES_MAX))
            != event.data_hash
        ):
            raise StoreError(f"{event.record_id} version {event.version}: the data does not follow")
    if record is None:
        raise StoreError("the log is empty")
    return record


def _created(machine: Machine, event: Event) -> Record:
    if event.trigger != CREATED or event.version != 1:
        raise StoreError(f"{event.record_id}: the log does not begin with its creation")
    record = Record(event.record_id, machine.name, event.target, event.version, event.payload)
    return machine.decide_creation(record).after


def _next(machine: Machine, record: Record, event: Event) -> Record:
    if event.version != record.version + 1 or event.source != record.state:
        raise StoreError(
            f"{event.record_id}: version {event.version} from {event.source} does not follow "
            f"version {record.version} in {record.state}"
        )
    after = machine.decide(record, event.trigger, event.payload, event.facts).after
    if after.state != event.target:
        raise StoreError(
            f"{event.record_id} version {event.version}: the table leads to {after.state}, "
            f"the log says {event.target}"
        )
    return after


def sums(lines: Sequence[Event | Note]) -> Mapping[str, int]:
    """Return the sum of every delta in a log."""
    totals: dict[str, int] = {}
    for line in lines:
        for name, amount in line.deltas.items():
            totals[name] = totals.get(name, 0) + amount
    return totals
