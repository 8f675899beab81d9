"""What frees the slot of an effect, and to whom it goes."""

from __future__ import annotations

import pytest

from interlock.kernel.errors import FencedError
from interlock.kernel.store import scripts
from interlock.kernel.store.commands import Warrant
from interlock.kernel.store.leases import Lease, Order, Refused
from interlock.kernel.store.slots import OFFER_MS, OFFERED
from tests.kernel.store.kernel_at_a_fixed_time import LOSSES_FREE, World, token
from tests.kernel.store.slot_users import (
    ACME,
    acquire,
    begin,
    begun,
    check,
    held,
    needs,
    owing,
    release,
    show,
    waiting,
)
from tests.kernel.store.tables import GRACE_MS, LEASE_MS


def test_an_effect_at_work_keeps_its_slot(world: World) -> None:
    key = owing(world, "r")
    begun(world, key)
    world.later(LEASE_MS * 100)

    assert check(world, key, too_long=True) == "work"
    assert isinstance(world.ask(key, "a"), Lease)


@pytest.mark.parametrize("trigger", ["poke", "cancel"])
def test_a_lost_or_revoked_holder_keeps_its_slot_until_it_has_surely_stopped(
    world: World, trigger: str
) -> None:
    key = owing(world, "r")
    lease, _ = begun(world, key)
    world.fire("r", trigger)
    world.later(LEASE_MS)
    world.poll()
    assert world.state_of("pay") == ("lapsed" if trigger == "poke" else "draining")
    world.later(GRACE_MS - 1)
    assert check(world, key, too_long=True) == "work"
    assert world.renew(lease) is (Order.GO if trigger == "poke" else Order.STOP)
    if trigger == "poke":
        world.later(LEASE_MS)
        world.poll()
        world.later(GRACE_MS)
    else:
        world.later(1)

    assert check(world, key, too_long=True) == "free"
    if trigger == "cancel":
        assert world.settle(lease).status == "settled"


def test_a_lost_holder_whose_slot_was_freed_does_not_come_back(world: World) -> None:
    key = owing(world, "r")
    lease, _ = begun(world, key)
    world.reserve(lease, tokens=5)
    world.later(LEASE_MS)
    world.poll()
    world.later(GRACE_MS)
    assert check(world, key, too_long=True) == "free"

    assert world.state_of("pay") == "owed"
    assert world.counter("residue.tokens") == 5
    assert world.counter("reserved.tokens") == 0
    assert world.renew(lease) is Order.LOST
    with pytest.raises(FencedError):
        world.fire("r", "paid", warrant=token(lease))


def test_what_may_not_start_again_has_its_slot_until_its_record_moves_on(world: World) -> None:
    key = owing(world, "r", by="send")
    lease, _ = begun(world, key)
    world.later(LEASE_MS + GRACE_MS)
    assert world.poll_status(key) == "crash"
    assert check(world, key, too_long=True) == "work"
    world.fire("r", "lost", warrant=Warrant.lapsed(lease.suffix, lease.token))
    world.later(LEASE_MS + GRACE_MS)
    world.poll()

    assert check(world, key) == "free"


def test_a_quarantined_effect_is_free_of_its_slot_and_its_holder_is_fenced(world: World) -> None:
    key = owing(world, "r")
    for turn in range(2 + LOSSES_FREE):
        lease, _ = begun(world, key, f"n{turn}")
        world.later(LEASE_MS)
        world.poll()
    assert world.state_of("pay") == "quarantined"
    assert check(world, key) == "free"

    assert world.renew(lease) is Order.LOST
    assert world.state_of("pay") == "quarantined"


def test_what_may_begin_is_due_and_polled_soon(world: World) -> None:
    key = owing(world, "r", priority=3)
    needs(world, key)

    assert world.leases.slots.check(ACME, key, poll_ms=700) == ("due", 3)
    assert world.score(key) == world.now + 700


@pytest.mark.parametrize("why", ["paused", "early", "gone", "exhausted", "too long"])
def test_what_cannot_begin_is_free_of_its_slot(world: World, why: str) -> None:
    key = owing(world, "r")
    if why == "paused":
        world.flag("pause")
    elif why == "early":
        world.leases.release(begun(world, key)[0], counted=True, delay_ms=5_000)
    elif why == "gone":
        world.fire("r", "cancel")
    elif why == "exhausted":
        for nonce in "ab":
            world.leases.release(begun(world, key, nonce)[0], counted=True)
    assert check(world, key, too_long=why == "too long") == "free"


def test_no_claim_is_granted_for_a_slot_that_was_freed(world: World) -> None:
    key = owing(world, "r")
    needed = needs(world, key)
    taken = acquire(world, key, needed)
    assert check(world, key, too_long=True) == "free"
    assert release(world, key, taken.stamp) == ()

    late = show(world, key, needed.number)
    assert isinstance(late, Refused)
    assert late.status == "slot"
    assert isinstance(begin(world, key), tuple)


def test_a_slot_that_was_acquired_again_is_not_given_back_for_the_first(world: World) -> None:
    key = owing(world, "r")
    lease, stamp = begun(world, key)
    world.leases.release(lease, counted=False)
    again, _ = begun(world, key, "b")
    release(world, key, stamp)
    release(world, key, OFFERED)
    assert held(world) == 1

    world.fire("r", "paid", warrant=token(again))
    assert check(world, key) == "free"


def test_a_waiting_effect_is_offered_the_slot_and_loses_the_offer_if_it_cannot_begin(
    world: World,
) -> None:
    lease, stamp = begun(world, owing(world, "r0"))
    begun(world, owing(world, "r1"))
    one, two = owing(world, "a"), owing(world, "b")
    begin(world, one)
    begin(world, two)
    world.fire("r0", "paid", warrant=token(lease))
    assert release(world, lease.key, stamp) == (one,)
    world.fire("a", "cancel")
    assert check(world, one) == "free"

    assert release(world, one, OFFERED) == (two,)
    assert begin(world, two)
    assert release(world, two, OFFERED) == (), "who has come for a slot keeps it"
    assert held(world) == 2


def test_an_offer_that_nobody_comes_for_goes_to_who_comes(world: World) -> None:
    lease, stamp = begun(world, owing(world, "r0"))
    begun(world, owing(world, "r1"))
    one, two = owing(world, "a"), owing(world, "b")
    begin(world, one)
    release(world, lease.key, stamp)
    assert begin(world, two) is None, "it is not its turn"
    world.later(OFFER_MS)

    assert begin(world, two)
    reports = world.keys.effect_slots(ACME)["reports"]
    assert not scripts.read(world.client, "HEXISTS", reports, one), "it is to be woken no more"
    assert begin(world, one) is None, "it waits for the next"
    assert (held(world), waiting(world)) == (2, 1)
    assert release(world, one, OFFERED) == (), "it has no slot to give back"


def test_who_has_a_slot_takes_no_other_offer(world: World) -> None:
    lease, stamp = begun(world, owing(world, "r0"))
    other, _ = begun(world, owing(world, "r1"))
    waits = owing(world, "a")
    begin(world, waits)
    release(world, lease.key, stamp)
    world.leases.release(other, counted=False)
    world.later(OFFER_MS)

    assert begin(world, other.key, "b")
    assert held(world) == 2, "the other offer is still good"
    assert begin(world, waits)


def test_a_slot_that_was_offered_again_is_not_given_back_by_its_stamp(world: World) -> None:
    lease, stamp = begun(world, owing(world, "r0"))
    other, stamp_of_other = begun(world, owing(world, "r1"))
    world.leases.release(lease, counted=False)
    release(world, lease.key, stamp)
    begun(world, owing(world, "r2"))
    assert begin(world, lease.key, "b") is None
    release(world, other.key, stamp_of_other)
    release(world, lease.key, stamp)

    assert held(world) == 2, "it was offered to it, and it has not come yet"
    assert begin(world, lease.key, "b")


def test_a_lost_effect_without_a_slot_stays_lapsed(world: World) -> None:
    lease, stamp = begun(world, owing(world, "r"))
    release(world, lease.key, stamp)
    world.later(LEASE_MS)
    world.poll()
    needs(world, lease.key, "b")

    assert world.entry("pay").holder == "here"
    assert world.renew(lease) is Order.GO


def test_a_place_that_is_taken_is_never_passed_on(world: World) -> None:
    keys = [owing(world, f"r{n}") for n in range(3)]
    begun(world, keys[0])
    begun(world, keys[1])
    world.later(OFFER_MS * 1_000)

    assert begin(world, keys[2]) is None


def test_a_slot_that_was_taken_again_in_the_same_ms_is_another(world: World) -> None:
    key = owing(world, "r")
    needed = needs(world, key)
    first = acquire(world, key, needed)
    release(world, key, first.stamp)
    second = acquire(world, key, needs(world, key))
    release(world, key, first.stamp)

    assert second.stamp != first.stamp
    assert held(world) == 1
