"""Takes the records of this code's tables back to the tables that were applied before.

Like `apply`, it tries every record before it changes anything, and may be killed and repeated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from interlock.kernel.errors import HeldError
from interlock.kernel.event import Cause
from interlock.kernel.machine import Machine
from interlock.kernel.record import Record
from interlock.kernel.store.older_records import BATCH
from interlock.kernel.store.views import Views
from interlock.kernel.taking_back import CannotBeTakenBackError, taken_back
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.ops.apply import (
    FAULTS_SHOWN,
    ApplyRefusedError,
    MovesLock,
    Progress,
    chosen,
    records_text,
)


@dataclass(frozen=True, slots=True)
class Before:
    """A machine, and the table that was applied before its own, by digest and as an outline."""

    machine: Machine
    digest: str
    outline: Mapping[str, Any]


def plan_back(dispatch: Dispatch, names: Iterable[str] = ()) -> dict[str, Counter[str]]:
    """Return how many records of each machine would be taken back, by state. Changes nothing.

    Raises ApplyRefusedError if some have gone on in a way that cannot be taken back.
    """
    found: dict[str, Counter[str]] = {}
    faults: list[str] = []
    for before in _befores(dispatch, names):
        for record, latest in _records(dispatch, before.machine):
            try:
                move = taken_back(before.machine, before.outline, record, latest)
            except CannotBeTakenBackError as refusal:
                faults.append(str(refusal))
            else:
                if move:
                    found.setdefault(before.machine.name, Counter())[record.state] += 1
    if faults:
        more = f"; and {len(faults) - FAULTS_SHOWN} more" if len(faults) > FAULTS_SHOWN else ""
        raise ApplyRefusedError(
            f"{records_text(len(faults))} cannot be taken back: "
            f"{'; '.join(faults[:FAULTS_SHOWN])}{more}. Nothing was changed"
        )
    return found


def take_back(
    dispatch: Dispatch, *, actor: str, names: Iterable[str] = (), progress: Progress | None = None
) -> dict[str, Counter[str]]:
    """Apply the tables of before again, and take every record back to them.

    Return by machine how many were taken back, and how many are at work: repeat it for these, once
    no worker works by this code. Raises as `plan_back`; another run that is at work refuses it.
    """
    lock = MovesLock(dispatch.tables, actor)
    lock.renew()
    try:
        befores = _befores(dispatch, names)
        plan_back(dispatch, [before.machine.name for before in befores])
        cause = Cause(actor, "interlock apply --back")
        seen: dict[str, Counter[str]] = {}
        for before in befores:
            # First of all: by now a sweep by this code moves nothing forward again.
            _apply(dispatch, before, actor)
            records = _records(dispatch, before.machine)
            while batch := list(islice(records, BATCH)):
                lock.renew()
                for record, latest in batch:
                    if taken_back(before.machine, before.outline, record, latest):
                        counted = seen.setdefault(before.machine.name, Counter())
                        counted[_took_back(dispatch, before, record.id, cause)] += 1
                if progress:
                    progress(seen)
        return seen
    finally:
        lock.free()


def _befores(dispatch: Dispatch, names: Iterable[str]) -> list[Before]:
    """Return the machines of which this code has the applied table, or the one that it replaced.

    It is the latter if the command was ended in the middle, and is repeated.
    """
    applied, replaced = dispatch.tables.applied(), dispatch.tables.replaced()
    wanted, found = set(names), []
    for name, machine in chosen(dispatch, wanted).items():
        if name not in replaced:
            continue
        now, other = applied[name].digest, replaced[name]
        if machine.digest in (now, other):
            digest = other if machine.digest == now else now
            found.append(Before(machine, digest, _outline(dispatch, name, digest)))
    if not found:
        raise ApplyRefusedError(
            "this code has no table that was applied last and that has replaced another one: run"
            " the command with the code whose records are to be taken back"
        )
    if len(found) > 1 and not wanted:
        each = ", ".join(before.machine.name for before in found)
        raise ApplyRefusedError(
            f"several tables have replaced another one: say which by --machine ({each})"
        )
    return found


def _outline(dispatch: Dispatch, name: str, digest: str) -> Mapping[str, Any]:
    outline = dispatch.tables.outline(name, digest)
    if outline is None:
        raise ApplyRefusedError(f"the store has no outline of {name} with the digest {digest}")
    return outline


def _apply(dispatch: Dispatch, before: Before, actor: str) -> None:
    name, own = before.machine.name, before.machine.digest
    now = dispatch.tables.applied()[name].digest
    if now != before.digest and not dispatch.tables.apply(
        name, before.digest, expected=own, by=actor
    ):
        raise ApplyRefusedError(
            f"another process has just applied another table of {name}: repeat the command"
        )


def _took_back(dispatch: Dispatch, before: Before, record_id: str, cause: Cause) -> str:
    try:
        dispatch.lifecycle.mover.take_back(record_id, before.outline, cause=cause)
    except HeldError:
        return "at work"
    except CannotBeTakenBackError as refusal:
        return f"not moved: {refusal}"
    return "taken back"


def _records(dispatch: Dispatch, machine: Machine) -> Iterator[tuple[Record, Any]]:
    """Yield the records of a machine as they are stored, each with the event of its version."""
    views = Views(dispatch.client, dispatch.keys)
    ids = views.ids(machine, states=[*(str(each.state) for each in machine.stages)])
    while batch := list(islice(ids, BATCH)):
        records = views.records(batch)
        events = views.events([(one.id, one.version) for one in records.values()])
        latest = {event.record_id: event for event in events}
        yield from ((record, latest.get(record.id)) for record in records.values())
