"""Calls of workers and sweeps about effects of which only so many may be at work."""

from __future__ import annotations

from interlock.kernel.store.leases import Lease, Refused
from interlock.kernel.store.slots import Needed, Taken
from tests.kernel.store.kernel_at_a_fixed_time import World
from tests.kernel.store.machines_limited import LIMITED

ACME = "limited.pay:acme"
ALL = "limited.send"
NUMBER_OF_SLOTS = {ACME: 2, ALL: 1}


def owing(
    world: World, of: str, tenant: str = "acme", *, by: str = "pay", priority: int = 5
) -> str:
    """Create a record that owes an effect with a limit; return the id of the effect."""
    world.create(of, {"tenant": tenant}, machine="limited", priority=priority)
    world.fire(of, by)
    return world.key(by, of)


def needs(world: World, key: str, nonce: str = "a") -> Needed:
    """Return what a claim of this effect is refused with that has no slot."""
    answer = world.ask(key, nonce)
    assert isinstance(answer, Refused)
    assert answer.status == "slot"
    slots, number, priority, since = answer.detail.split(" ")
    return Needed(slots, number, int(priority), int(since))


def acquire(world: World, key: str, needed: Needed) -> Taken:
    return world.leases.slots.acquire(key, needed, NUMBER_OF_SLOTS.get(needed.slots, 2))


def show(world: World, key: str, number: str, nonce: str = "a") -> Lease | Refused:
    """Claim an effect, and show its slot."""
    effect = LIMITED.effects[world.entry_of_key(key).name]
    return world.leases.claim(key, effect, nonce=nonce, holder="here", schema=1, slot=number)


def begin(world: World, key: str, nonce: str = "a") -> tuple[Lease, str] | None:
    """Claim an effect as a worker does: with a slot, if it gets one."""
    needed = needs(world, key, nonce)
    taken = acquire(world, key, needed)
    if not taken.stamp:
        return None
    lease = show(world, key, needed.number, nonce)
    assert isinstance(lease, Lease), lease
    return lease, taken.stamp


def begun(world: World, key: str, nonce: str = "a") -> tuple[Lease, str]:
    found = begin(world, key, nonce)
    assert found, f"{key} got no slot"
    return found


def release(world: World, key: str, stamp: str, slots: str = ACME) -> tuple[str, ...]:
    return world.leases.slots.release(slots, NUMBER_OF_SLOTS[slots], key, stamp)


def check(world: World, key: str, *, too_long: bool = False, slots: str = ACME) -> str:
    return world.leases.slots.check(slots, key, poll_ms=1_000, too_long=too_long)[0]


def held(world: World, slots: str = ACME) -> int:
    return world.leases.slots.use([slots])[slots].held


def waiting(world: World, slots: str = ACME) -> int:
    return world.leases.slots.use([slots])[slots].waiting
