"""Says what the effects wait for of which only so many may be at work at one time."""

from __future__ import annotations

from interlock.kernel.owing import slots_named
from interlock.kernel.record import Record
from interlock.kernel.store.slots import SlotUse
from interlock.workers.engine.dispatch import Dispatch


def concurrency_of(dispatch: Dispatch, slots: str) -> int | None:
    """Return how many slots of this name there are, 0 for any; None if they are not known here.

    Of an effect that the applied table no longer has there is one: no table had fewer.
    """
    machine, name, _ = slots_named(slots)
    found = dispatch.machines.get(machine)
    if found is None or name in found.effects:
        return found.effects[name].concurrency if found else None
    return None if dispatch.tables_elsewhere.has(machine) else 1


def slot_waits(dispatch: Dispatch, record: Record) -> list[str]:
    """Say what each effect of a record waits for that waits for a slot."""
    return [
        f"{entry.name} waits: {use_of(dispatch, entry.slots)}"
        for entry in record.entries
        if entry.awaits_slot
    ]


def busy_slots(dispatch: Dispatch) -> list[str]:
    """Say of slots that effects wait for how many are at work and wait, the longest queue first."""
    slots = dispatch.leases.slots
    uses = slots.use(slots.contended(dispatch.views.now_ms()))
    busy = sorted((-use.waiting, name) for name, use in uses.items() if use.waiting)
    return [
        f"{'.'.join(slots_named(name)[:2])}: {_said(dispatch, name, uses[name])}"
        for _, name in busy
    ]


def use_of(dispatch: Dispatch, slots: str) -> str:
    """Say how many effects with a slot of this name are at work, and how many wait for one."""
    return _said(dispatch, slots, dispatch.leases.slots.use([slots])[slots])


def _said(dispatch: Dispatch, slots: str, use: SlotUse) -> str:
    limit = concurrency_of(dispatch, slots) or "any number"
    _, _, key = slots_named(slots)
    whose = "" if key is None else f" for {key}"
    return f"{use.held} of {limit}{whose} are at work, and {use.waiting} wait"
