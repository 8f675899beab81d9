"""Restores a family of records from their logs, into a store that no longer has it.

Each record is computed from its log by its table; a log that does not fit the table is refused.
Only records that have ended are restored, and roots that wait for nobody. Records that the store
has are not replaced.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from interlock.kernel.errors import (
    CallError,
    KernelError,
    NewerSchemaError,
    StoreError,
    UnknownMachineError,
)
from interlock.kernel.event import Event, Note
from interlock.kernel.machine import Machine
from interlock.kernel.moving import as_read
from interlock.kernel.owing import NOTHING
from interlock.kernel.record import PRIORITY_DEFAULT, Record, record_id, root_of
from interlock.kernel.store import codec
from interlock.kernel.store.commands import Commit
from interlock.kernel.store.fold import fold, sums
from interlock.kernel.store.keys import Keys
from interlock.kernel.store.repairs import Repairs
from interlock.kernel.store.restores import POSITION, Lock, Restores
from interlock.kernel.store.scripts import Client
from interlock.kernel.table import Active

DIGEST = re.compile(r"[0-9a-f]{16}")
# No record has this name: the last segment of an id below a root is a number.
HOLDER = "import"
WHY_NOT = {
    "taken": "another record has its id; that record was not changed",
    "pruned": "it was pruned from this store, and its id stays taken for a while",
    "leftovers": "the store has its log or its counters without its record; repair that by hand",
    "held": "a record of its family is at work in this store",
    "closed": "its family is not being restored, or its parent is not restored yet",
}


class RestoreRefusedError(CallError):
    """A record cannot be restored as it is given. Nothing was written; the message says why."""

    def __init__(self, record: str, why: str) -> None:
        super().__init__(f"{record} cannot be restored: {why}")
        self.record = record


@dataclass(frozen=True, slots=True)
class LoggedRecord:
    """A record with its whole log, from which it can be restored.

    `creation_digest` is that of what it was created from.
    """

    id: str
    machine: str
    creation_digest: str
    lines: tuple[Event | Note, ...]
    priority: int = PRIORITY_DEFAULT
    schema: int = 1

    @classmethod
    def read(
        cls,
        id: str,  # noqa: A002 - a record's id is called id everywhere
        machine: str,
        creation_digest: str,
        log: Iterable[Mapping[str, Any]],
        priority: int,
        schema: int,
    ) -> Self:
        """Return a record with its log as `log` gave it. Raises what the fault of it raises."""
        lines = tuple(_line(record_id(id), line) for line in log)
        return cls(id, machine, creation_digest, lines, priority, schema)

    @property
    def log(self) -> list[dict[str, Any]]:
        """The lines as JSON: position, time, and the `event` or the `note` with its `detail`."""
        return [_line_as_json(line) for line in self.lines]

    def recomputed(self, machine: Machine) -> Record:
        """Return the record that the log leads to, with its times. Raises RestoreRefusedError."""
        if self.schema > machine.schema:
            raise NewerSchemaError(self.id, self.schema, machine.schema)
        try:
            _in_order(self)
            record = fold(machine, self.lines)
        except StoreError as refusal:
            raise RestoreRefusedError(self.id, f"its log does not fold: {refusal}") from None
        except (KernelError, LookupError, TypeError, ValueError) as refusal:
            raise RestoreRefusedError(self.id, f"its log cannot be followed: {refusal!r}") from None
        at_ms = {line.version: line.at_ms for line in self.lines if isinstance(line, Event)}
        return replace(
            record,
            priority=self.priority,
            schema=self.schema,
            since_ms=at_ms[record.entered],
            created_ms=at_ms[min(at_ms)],
        )


class Restoration:
    """Restores families into one store. A family holds `name` while it is restored."""

    def __init__(
        self, client: Client, keys: Keys, machines: Mapping[str, Machine], *, name: str
    ) -> None:
        self.machines, self.name = machines, name
        self._restores, self._repairs = Restores(client, keys), Repairs(client, keys)

    def restore(self, logged: LoggedRecord) -> bool:
        """Restore one record: the root of a family first, then the records below it.

        While the root holds the family's name, no other call can create records in it. Returns
        False where the store has the record already, and it is the same. Raises
        RestoreRefusedError.
        """
        machine = self.machines.get(logged.machine)
        if machine is None:
            raise UnknownMachineError(logged.machine, sorted(self.machines))
        _admit(machine, logged)
        record = logged.recomputed(machine)
        now = as_read(machine, record)
        stage = machine.stage(now.state)
        if isinstance(stage, Active) or stage.shares(now.data) != NOTHING:
            raise RestoreRefusedError(
                logged.id, f"it is {record.state}; a record at work cannot be"
            )
        if stage.waits_for_person(now.data) or machine.bookkeeping.bounds:
            raise RestoreRefusedError(logged.id, f"a {machine.name} in this state cannot be")
        lock, counted = self._lock(logged.id), sums(logged.lines)
        in_data = machine.counters(now.data)
        if wrong := {name: n for name, n in in_data.items() if counted.get(name, 0) != n}:
            raise RestoreRefusedError(logged.id, f"its log does not add up to {wrong}")
        status = self._restores.restore(
            machine, record, logged.creation_digest, logged.lines, lock, counted
        )
        if status in WHY_NOT:
            raise RestoreRefusedError(logged.id, WHY_NOT[status])
        return status == "restored"

    def restore_family_log(self, root: str, commits: Sequence[Commit]) -> None:
        """Write the commits of a family into its family log, in their old order."""
        for position, member_id, version in commits:
            if not POSITION.fullmatch(position) or root_of(member_id) != root or version < 1:
                commit = f"{position} {member_id} {version}"
                raise RestoreRefusedError(root, f"{commit} is no commit of its family")
        if self._restores.restore_family_log(root, commits, self._lock(root)) == "closed":
            raise RestoreRefusedError(root, WHY_NOT["closed"])

    def finish(self, root: str) -> None:
        """Free the family's name, once all its records are restored. A repeat changes nothing."""
        self._repairs.free(root, self.name, self.holder(root))

    def holder(self, root: str) -> str:
        """Return what the store has as the holder of a family's name while it is restored."""
        return f"{root}/{HOLDER}"

    def _lock(self, member_id: str) -> Lock:
        return Lock(self.name, self.holder(root_of(member_id)))


def _admit(machine: Machine, logged: LoggedRecord) -> None:
    """Refuse a record that could not have been created."""
    record_id(logged.id)
    machine.placement.check_id(machine.name, logged.id)
    if not DIGEST.fullmatch(logged.creation_digest):
        raise RestoreRefusedError(logged.id, f"{logged.creation_digest!r} is no digest")


def _line_as_json(line: Event | Note) -> dict[str, Any]:
    if isinstance(line, Event):
        event = json.loads(codec.event_bytes(line))
        return {"position": f"{line.version}-0", "at_ms": line.at_ms, "event": event}
    note = {"position": line.position, "at_ms": line.at_ms, "note": line.kind}
    return {**note, "detail": dict(line.detail)}


def _line(record_id: str, line: Mapping[str, Any]) -> Event | Note:
    pairs = {b"at": str(line["at_ms"]).encode()}
    if line["event"] is not None:
        pairs[b"event"] = _as_bytes(line["event"])
    else:
        pairs |= {b"note": str(line["note"]).encode(), b"detail": _as_bytes(line["detail"] or {})}
    return codec.line_of(record_id, line["position"].encode(), pairs)


def _as_bytes(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _in_order(logged: LoggedRecord) -> None:
    """Refuse a log whose lines are out of order, or belong to another record."""
    last = (0, -1)
    for line in logged.lines:
        position = f"{line.version}-0" if isinstance(line, Event) else line.position
        if line.record_id != logged.id:
            raise StoreError(f"{position} belongs to {line.record_id}")
        if not POSITION.fullmatch(position):
            raise StoreError(f"{position!r} is no position of a line")
        version, number = (int(part) for part in position.split("-"))
        if (version, number) <= last:
            raise StoreError(f"{position} comes after {last[0]}-{last[1]}")
        last = (version, number)
