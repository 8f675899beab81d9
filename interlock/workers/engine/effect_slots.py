"""Claims effects of which only so many may be at work, and passes their slots on.

An effect that gets no slot costs nothing while it waits: its message is done with, no attempt is
counted, and who frees a slot publishes the effect that has waited longest.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from interlock.kernel.effect import Effect
from interlock.kernel.errors import StoreError
from interlock.kernel.owing import slots_named
from interlock.kernel.store.commands import EffectMessage
from interlock.kernel.store.leases import Lease, Refused
from interlock.kernel.store.slots import OFFERED, EffectSlot, Needed
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.effect_ends import EffectRetriedError
from interlock.workers.engine.slot_waits import concurrency_of, use_of
from interlock.workers.engine.work import EffectWork

log = logging.getLogger(__name__)

TRIES_MAX = 5  # of a claim, each time because another effect of the record was claimed meanwhile
WOKEN_MAX = 1_000  # effects that one call passes a slot on to, until one of them can use it
UNUSED_MS = 30_000  # an effect that has not begun for so long loses its slot to the next


class Claim(Protocol):
    """Claims an effect, and shows the slot that was acquired for it."""

    def __call__(self, *, slot: str = "") -> Lease | Refused:
        """Return the lease, or why it is refused."""


@dataclass(frozen=True, slots=True)
class UsedSlot:
    """The slot under which an effect is at work."""

    slots: str
    key: str
    stamp: str


def claim_with_slot(
    dispatch: Dispatch, key: str, effect: Effect, claim: Claim, refused: Refused
) -> tuple[Lease | Refused, UsedSlot | None]:
    """Claim an effect with a slot, after a claim without one was refused.

    It may be refused for want of a slot.
    """
    answer: Lease | Refused = refused
    used = None
    for _ in range(TRIES_MAX):
        if not (isinstance(answer, Refused) and answer.status == "slot"):
            break
        if not effect.concurrency:
            return claim(slot="none"), None
        needed = needed_slot(answer)
        taken = dispatch.leases.slots.acquire(key, needed, effect.concurrency)
        wake(dispatch, needed.slots, effect.concurrency, taken.to_wake)
        if not taken.stamp:
            return Refused("slot", f"({use_of(dispatch, needed.slots)})"), None
        used = UsedSlot(needed.slots, key, taken.stamp)
        answer = claim(slot=needed.number)
    if isinstance(answer, Refused) and used is not None:
        _give_up(dispatch, used)
        used = None
    return answer, used


def _give_up(dispatch: Dispatch, used: UsedSlot) -> None:
    """Give a slot back that a claim could not use, unless another claim of the effect has used it.

    Two messages for one effect may come at the same moment.
    """
    slot = EffectSlot(used.key, used.stamp, UNUSED_MS + 1)
    if _is_free(dispatch, used.slots, slot):
        free(dispatch, used)


@contextmanager
def used_slot(dispatch: Dispatch, used: UsedSlot | None, work: EffectWork) -> Iterator[None]:
    """Give a slot back after the block, in which the effect is done.

    It is left to a sweep where the effect goes on elsewhere, or its lease could not be ended.
    """
    try:
        yield
    except EffectRetriedError as end:
        if isinstance(end.__cause__, StoreError):
            used = None
        raise
    finally:
        if used is not None and not work.handed_over.is_set():
            free(dispatch, used)


def needed_slot(refused: Refused) -> Needed:
    """Return what a claim needs that was refused for want of a slot."""
    slots, number, priority, since_ms = refused.detail.split(" ")
    return Needed(slots, number, int(priority), int(since_ms))


def free(dispatch: Dispatch, used: UsedSlot) -> None:
    """Give a slot back whose effect is at work no more, and wake the effect that gets it.

    What fails here, a sweep does.
    """
    limit = concurrency_of(dispatch, used.slots)
    if limit is None:
        return
    try:
        offered = dispatch.leases.slots.release(used.slots, limit, used.key, used.stamp)
        wake(dispatch, used.slots, limit, offered)
    except StoreError as refusal:
        log.warning("the slot of %s is not given back: %s; a sweep will do so", used.key, refusal)


def wake(dispatch: Dispatch, slots: str, limit: int, offered: Iterable[str]) -> None:
    """Publish effects that were offered a slot. One that cannot begin now passes it on."""
    machine, effect, _ = slots_named(slots)
    left, messages = deque(offered), list[EffectMessage]()
    for _ in range(WOKEN_MAX):
        if not left:
            break
        key = left.popleft()
        status, priority = dispatch.leases.slots.check(slots, key, poll_ms=dispatch.limits.poll_ms)
        if status == "due":
            messages.append(EffectMessage(key, machine, effect, priority))
        elif status == "free":
            left += dispatch.leases.slots.release(slots, limit, key, OFFERED)
    dispatch.publish(messages)


def check(dispatch: Dispatch, slots: str) -> str:
    """Free the slots of this name whose effects are at work no more, and offer those to others."""
    limit, held = concurrency_of(dispatch, slots), dispatch.leases.slots.poll(slots)
    if limit is None or held is None:
        return "taken" if held is None else "not ours"
    offered: list[str] = []
    freed = 0
    for slot in held:
        if _is_free(dispatch, slots, slot):
            freed += 1
            offered += dispatch.leases.slots.release(slots, limit, slot.key, slot.stamp)
    offered += dispatch.leases.slots.release(slots, limit)
    wake(dispatch, slots, limit, dict.fromkeys(offered))
    return "freed" if freed else "checked"


def _is_free(dispatch: Dispatch, slots: str, slot: EffectSlot) -> bool:
    status, _ = dispatch.leases.slots.check(
        slots, slot.key, poll_ms=dispatch.limits.poll_ms, too_long=slot.age_ms > UNUSED_MS
    )
    return status == "free"
