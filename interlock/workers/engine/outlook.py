"""Says what follows by itself in the state of a record, and what it waits for."""

from __future__ import annotations

from collections.abc import Collection

from interlock.kernel.errors import CallError
from interlock.kernel.record import Record
from interlock.kernel.shown_stage import shown_stage
from interlock.kernel.table import Terminal
from interlock.workers.engine.awaited import awaited_by
from interlock.workers.engine.card_parts import CardParts
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.slot_waits import slot_waits

CHAIN_LENGTH_MAX = 100  # of records that wait for each other, which are looked at


def outlook_of(dispatch: Dispatch, record: Record, shown: Collection[str]) -> str:
    """Say what follows by itself in the state of a record, and which other it waits for, or ''.

    `shown` are the machines of whose records that may be said.
    """
    parts = CardParts(dispatch.lifecycle.machine(record.machine), record)
    outlook = shown_stage(parts.machine, record.state).outlook
    said = (
        parts.made("the outlook", "", outlook, record.data),
        parts.made("the wait", "", _waits_for_record, dispatch, record, shown),
    )
    known = " ".join(filter(None, said)) or "; ".join(parts.faults)
    return "; ".join(filter(None, (known, *slot_waits(dispatch, record))))


def _waits_for_record(dispatch: Dispatch, record: Record, shown: Collection[str]) -> str:
    """Say which record a record waits for and how far that one is; '' where it waits for none.

    `shown` are the machines of whose records that may be said. Raises TableFunctionError.
    """
    target = _awaited(dispatch, record)
    if target is None:
        return ""
    if not target:
        return "It waits for the end of another record, which its data do not name yet."
    try:
        found = dispatch.views.record(target)
    except CallError:
        how_far = ", which does not exist, or is deleted already"
    else:
        how_far = _how_far(dispatch, record, found) if found.machine in shown else ""
    return f"It waits for the end of {target}{how_far}."


def _how_far(dispatch: Dispatch, record: Record, found: Record) -> str:
    """Say how far a record is whose end another one waits for."""
    machine = dispatch.lifecycle.machine(found.machine)
    if isinstance(shown_stage(machine, found.state), Terminal):
        return f", which has ended as {found.state}: a worker goes on with that soon"
    chain = _chain(dispatch, record, found)
    if record.id not in chain:
        return f", a {found.machine} that is {found.state}"
    others = "".join(f", which waits for {each}" for each in chain[1:])
    ends = "a time limit, an expiry, a call or a cancel"
    return f"{others}: none of them goes on until {ends} ends a wait"


def _chain(dispatch: Dispatch, record: Record, found: Record) -> list[str]:
    """Return the records that wait for each other, from the one that a record waits for on."""
    chain: list[str] = [found.id]
    while len(chain) < CHAIN_LENGTH_MAX and record.id not in chain:
        target = _awaited(dispatch, found)
        if not target or target in chain:
            break
        chain.append(target)
        try:
            found = dispatch.views.record(target)
        except CallError:
            break
    return chain


def _awaited(dispatch: Dispatch, record: Record) -> str | None:
    waits = awaited_by(dispatch.lifecycle.machine(record.machine), record)
    return waits[1] if waits else None
