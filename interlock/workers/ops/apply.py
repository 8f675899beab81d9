"""Makes the tables of this code the applied ones, and moves the records of older ones at once.

Everything is tried first, on every record, so that a fault is told before anything has changed. It
may be killed at any time and repeated: each move is a commit of its own, and made once.
"""

from __future__ import annotations

import os
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from interlock.kernel.errors import (
    CallError,
    HeldError,
    NewerSchemaError,
    StrandedError,
    TableFunctionError,
)
from interlock.kernel.event import Cause
from interlock.kernel.machine import Machine
from interlock.kernel.moving import move_of
from interlock.kernel.outline import outline_of
from interlock.kernel.record import Record
from interlock.kernel.store.older_records import BATCH
from interlock.kernel.store.tables import Tables
from interlock.kernel.store.views import Views
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.table_check import REPAIR, stranded, why_older

LOCK_MS = 10_000
FAULTS_SHOWN = 5
Progress = Callable[[Mapping[str, Any]], None]


class ApplyRefusedError(CallError):
    """The tables of this code cannot be applied as things are. Nothing was changed."""


class MovesLock:
    """Lets one process of the deployment at a time move all records; it is freed in 10 s."""

    def __init__(self, tables: Tables, actor: str) -> None:
        self.tables = tables
        self.holder = f"{actor} (process {os.getpid()}, {secrets.token_hex(4)})"

    def renew(self) -> None:
        """Take the lock, or go on with it. Raises ApplyRefusedError."""
        other = self.tables.lock_moves(self.holder, LOCK_MS)
        if other != self.holder:
            raise ApplyRefusedError(
                f"records are being moved by {other}; wait until that has ended (10 s if it was"
                " killed), then repeat the command"
            )

    def free(self) -> None:
        """Free the lock, if it is ours."""
        self.tables.lock_moves(self.holder, 0)


def plan(dispatch: Dispatch, names: Iterable[str] = ()) -> dict[str, Counter[str]]:
    """Return how many records of each machine would be moved, by state. Changes nothing.

    Raises ApplyRefusedError or StrandedError where they cannot be.
    """
    machines = chosen(dispatch, names)
    applied = dispatch.tables.applied()
    changed = {
        name: machine
        for name, machine in machines.items()
        if name not in applied or applied[name].digest != machine.digest
    }
    for machine in changed.values():
        if older := why_older(dispatch, machine, applied.get(machine.name)):
            raise ApplyRefusedError(older)
    if problems := list(stranded(dispatch, changed, applied)):
        raise StrandedError(problems)
    found: dict[str, Counter[str]] = {}
    faults: list[str] = []
    for machine in machines.values():
        for record in _older(dispatch, machine):
            try:
                move_of(machine, record)
            except TableFunctionError as refusal:
                faults.append(f"{record.id}: {refusal}")
            found.setdefault(machine.name, Counter())[record.state] += 1
    if faults:
        more = f"; and {len(faults) - FAULTS_SHOWN} more" if len(faults) > FAULTS_SHOWN else ""
        first = "; ".join(faults[:FAULTS_SHOWN])
        raise ApplyRefusedError(
            f"the data of {records_text(len(faults))} cannot be made newer: {first}{more};"
            f" {REPAIR}. Nothing was changed"
        )
    return found


def apply(
    dispatch: Dispatch, *, actor: str, names: Iterable[str] = (), progress: Progress | None = None
) -> dict[str, Counter[str]]:
    """Apply the tables of this code, and move every record that older ones have left.

    Return by machine how many were moved, and how many are at work by the older version and are
    moved when that has ended. Raises as `plan`; another run that is at work refuses it too.
    """
    machines = chosen(dispatch, names)
    lock = MovesLock(dispatch.tables, actor)
    lock.renew()
    try:
        plan(dispatch, machines)
        _apply_tables(dispatch, machines, actor)
        cause = Cause(actor, "interlock apply")
        seen: dict[str, Counter[str]] = {}
        for machine in machines.values():
            ids = dispatch.older_records.all_ids(machine)
            while batch := list(islice(ids, BATCH)):
                lock.renew()
                counted = seen.setdefault(machine.name, Counter())
                counted.update(_moved(dispatch, one, cause) for one in batch)
                if progress:
                    progress(seen)
        return seen
    finally:
        lock.free()


def chosen(dispatch: Dispatch, names: Iterable[str]) -> dict[str, Machine]:
    """Return the machines of these names, all without names."""
    wanted = set(names)
    return {
        name: machine for name, machine in dispatch.machines.items() if not wanted or name in wanted
    }


def _apply_tables(dispatch: Dispatch, machines: Mapping[str, Machine], actor: str) -> None:
    for name, machine in machines.items():
        now = dispatch.tables.applied().get(name)
        if now and now.digest == machine.digest:
            continue
        dispatch.tables.keep(name, machine.digest, outline_of(machine))
        expected = now.digest if now else ""
        if not dispatch.tables.apply(name, machine.digest, expected=expected, by=actor):
            raise ApplyRefusedError(
                f"another process has just applied another table of {name}: repeat the command"
            )


def _moved(dispatch: Dispatch, record_id: str, cause: Cause) -> str:
    try:
        dispatch.lifecycle.mover.move(record_id, cause=cause)
    except HeldError:
        return "at work"
    except (NewerSchemaError, TableFunctionError) as refusal:
        return f"not moved: {refusal}"
    return "moved"


def _older(dispatch: Dispatch, machine: Machine) -> Iterator[Record]:
    """Yield the records to move as they are stored."""
    views, ids = Views(dispatch.client, dispatch.keys), dispatch.older_records.all_ids(machine)
    while batch := list(islice(ids, BATCH)):
        yield from views.records(batch).values()


def records_text(number: int) -> str:
    """Return a number of records in words."""
    return "1 record" if number == 1 else f"{number:,} records"
