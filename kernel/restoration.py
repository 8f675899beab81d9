"""Brings a family of records back from their logs into a store that has it no more.

The logs are the truth: what a record is follows from its log, by the tables, or it is refused. It
restores what has ended, and roots that wait for nobody; it never replaces what is there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum, auto

from interlock.kernel.errors import (
    CallError,
    KernelError,
    NewerSchemaError,
    StoreError,
    UnknownMachineError,
)
from interlock.kernel.event import Event, Note
from interlock.kernel.machine import NOTHING, Machine
from interlock.kernel.record import Record, record_id, root_of
from interlock.kernel.store.commands import Commit
from interlock.kernel.store.fold import fold, sums
from interlock.kernel.store.keys import Keys
from interlock.kernel.store.repairs import Repairs
from interlock.kernel.store.restores import POSITION, Lock, Restores
from interlock.kernel.store.scripts import Client
from interlock.kernel.table import Active

DIGEST = re.compile(r"[0-9a-f]{16}")
# The name of no record: the last segment of a record's id below a root is a number.
HOLDER = "import"
WHY_NOT = {
    "taken": "another record has its id; nothing of that was changed",
    "pruned": "it was forgotten here on purpose, and its id stays taken for a while",
    "leftovers": "a part of it is still in the store without its record; repair that by hand",
    "held": "something of its family is at work here",
    "closed": "its family is not being restored, or the record above it is not back",
}


class RestoreRefusedError(CallError):
    """A record cannot be brought back as it is given. The message says why; nothing was written."""

    def __init__(self, record: str, why: str) -> None:
        super().__init__(f"{record} cannot be restored: {why}")
        self.record = record


class Restored(StrEnum):
    """What became of a record that was given."""

    WRITTEN = auto()
    THERE = auto()


@dataclass(frozen=True, slots=True)
class Kept:
    """A record as somebody kept it: what it was born from (a digest), and its whole log."""

    id: str
    machine: str
    birth: str
    lines: tuple[Event | Note, ...]
    priority: int = 5
    schema: int = 1


def recomputed(machine: Machine, kept: Kept) -> Record:
    """Return the record that a log leads to, with its times. Raises RestoreRefusedError."""
    if kept.schema > machine.schema:
        raise NewerSchemaError(kept.id, kept.schema, machine.schema)
    try:
        _in_order(kept)
        record = fold(machine, kept.lines)
    except StoreError as refusal:
        raise RestoreRefusedError(kept.id, f"its log does not fold: {refusal}") from None
    except (KernelError, LookupError, TypeError, ValueError) as refusal:
        raise RestoreRefusedError(kept.id, f"its log cannot be followed: {refusal!r}") from None
    at_ms = {line.version: line.at_ms for line in kept.lines if isinstance(line, Event)}
    return replace(
        record,
        priority=kept.priority,
        schema=kept.schema,
        since_ms=at_ms[record.entered],
        created_ms=at_ms[min(at_ms)],
    )


class Restoration:
    """Restores families into one store. `name` is what is held in a family meanwhile."""

    def __init__(
        self, client: Client, keys: Keys, machines: Mapping[str, Machine], *, name: str
    ) -> None:
        self.machines, self.name = machines, name
        self._restores, self._repairs = Restores(client, keys), Repairs(client, keys)

    def restore(self, kept: Kept) -> Restored:
        """Bring one record back: its root first, which keeps everybody out, then those below.

        Nothing is written where it is there already, just so. Raises RestoreRefusedError.
        """
        machine = self.machines.get(kept.machine)
        if machine is None:
            raise UnknownMachineError(kept.machine, sorted(self.machines))
        _admit(machine, kept)
        record = recomputed(machine, kept)
        stage = machine.stage(record.state)
        if isinstance(stage, Active) or stage.shares(record.data) != NOTHING:
            raise RestoreRefusedError(kept.id, f"it is {record.state}; what is at work cannot be")
        if stage.waits_for_person(record.data) or machine.bookkeeping.bounds:
            raise RestoreRefusedError(kept.id, f"a {machine.name} cannot be, as it is now")
        lock, counted = self._lock(kept.id), sums(kept.lines)
        in_data = machine.counters(record.data)
        if wrong := {name: n for name, n in in_data.items() if counted.get(name, 0) != n}:
            raise RestoreRefusedError(kept.id, f"its log does not add up to {wrong}")
        word = self._restores.restore(machine, record, kept.birth, kept.lines, lock, counted)
        if word in WHY_NOT:
            raise RestoreRefusedError(kept.id, WHY_NOT[word])
        return Restored.WRITTEN if word == "restored" else Restored.THERE

    def relist(self, root: str, commits: Sequence[Commit]) -> None:
        """List the commits of a family that is restored in its family log, in their old order."""
        for position, of, version in commits:
            if not POSITION.fullmatch(position) or root_of(of) != root or version < 1:
                raise RestoreRefusedError(root, f"{position} {of} {version} is no commit of it")
        if self._restores.relist(root, commits, self._lock(root)) == "closed":
            raise RestoreRefusedError(root, WHY_NOT["closed"])

    def finish(self, root: str) -> None:
        """Let others into a family: all of it is back. A repeat changes nothing."""
        self._repairs.free(root, self.name, self._lock(root).holder)

    def _lock(self, of: str) -> Lock:
        return Lock(self.name, f"{root_of(of)}/{HOLDER}")


def _admit(machine: Machine, kept: Kept) -> None:
    """Refuse what no create would have admitted."""
    record_id(kept.id)
    machine.check_id(kept.id)
    if not DIGEST.fullmatch(kept.birth):
        raise RestoreRefusedError(kept.id, f"{kept.birth!r} is no digest of a birth")


def _in_order(kept: Kept) -> None:
    """Refuse a log that the store could not hold, or which is another's."""
    last = (0, -1)
    for line in kept.lines:
        position = f"{line.version}-0" if isinstance(line, Event) else line.position
        if line.record_id != kept.id:
            raise StoreError(f"{position} is of {line.record_id}")
        if not POSITION.fullmatch(position):
            raise StoreError(f"{position!r} is no position of a line")
        version, number = (int(part) for part in position.split("-"))
        if (version, number) <= last:
            raise StoreError(f"{position} stands after {last[0]}-{last[1]}")
        last = (version, number)
