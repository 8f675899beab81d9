"""Effects of which only so many may be at work: who gets a slot, and who waits."""

from __future__ import annotations

import pytest

from interlock.kernel.errors import TableFunctionError
from interlock.kernel.record import partition_of
from interlock.kernel.store import scripts
from interlock.kernel.store.commands import InitialLease
from interlock.kernel.store.leases import Lease, Refused
from interlock.kernel.store.owed import OwedReader
from interlock.kernel.store.slots import CHECK_MS, CHECK_SELDOM_MS, OFFERED
from tests.kernel.store.kernel_at_a_fixed_time import World, token
from tests.kernel.store.slot_users import (
    ACME,
    ALL,
    begin,
    begun,
    held,
    needs,
    owing,
    release,
    show,
    waiting,
)
from tests.kernel.store.tables import LEASE_MS

SLOT_POLL_MS = 60_000


def test_as_many_are_at_work_as_there_are_slots_for_their_key(world: World) -> None:
    keys = [owing(world, f"r{n}") for n in range(4)]
    others = [owing(world, f"s{n}", "other") for n in range(2)]

    assert [begin(world, key) is not None for key in keys] == [True, True, False, False]
    assert [begin(world, key) is not None for key in others] == [True, True]
    assert (held(world), waiting(world)) == (2, 2)


def test_without_a_key_all_records_share_the_slots(world: World) -> None:
    keys = [owing(world, f"r{n}", f"tenant {n}", by="send") for n in range(2)]

    assert [begin(world, key) is not None for key in keys] == [True, False]
    assert world.entry("send", "r0").slots == ALL


def test_who_waits_has_no_attempt_counted_and_is_polled_seldom(world: World) -> None:
    for of in ("r0", "r1"):
        begun(world, owing(world, of))
    key = owing(world, "r")
    assert begin(world, key) is None

    entry = world.entry("pay")
    assert (entry.state, entry.attempts, entry.awaits_slot) == ("owed", 0, True)
    assert world.score(key) == world.now + SLOT_POLL_MS
    world.later(SLOT_POLL_MS)
    assert world.poll_status(key) == "publish"
    polled_again = world.score(key)
    assert polled_again is not None
    assert polled_again - world.now > 0.8 * 32_000, "each poll waits twice as long as before"


def test_who_waits_is_none_of_those_that_nobody_does(world: World) -> None:
    for of in ("r0", "r1"):
        begun(world, owing(world, of))
    key = owing(world, "r")
    reader = OwedReader(world.client, world.keys)
    assert [one.key for one in reader.oldest()] == [key]
    begin(world, key)

    assert reader.oldest() == []


def test_who_waits_for_a_slot_asks_nobody_any_more(world: World) -> None:
    key = owing(world, "r")
    lease, stamp = begun(world, key)
    world.leases.release(lease, counted=True, asks=True)
    release(world, key, stamp)
    assert world.waits()
    needs(world, key, "b")

    assert not world.waits()


def test_a_slot_goes_by_priority_then_to_who_has_waited_longest(world: World) -> None:
    first = owing(world, "r0")
    lease, stamp = begun(world, first)
    begun(world, owing(world, "r1"))
    keys = {}
    for of, priority in (("late", 5), ("later", 5), ("urgent", 0)):
        world.later(1)
        keys[of] = owing(world, of, priority=priority)
    for of in ("later", "late", "urgent"):
        assert begin(world, keys[of]) is None
    world.fire("r0", "paid", warrant=token(lease))

    assert release(world, first, stamp) == (keys["urgent"],)
    lease, stamp = begun(world, keys["urgent"])
    world.fire("urgent", "paid", warrant=token(lease))
    assert release(world, keys["urgent"], stamp) == (keys["late"],)
    assert held(world) == 2


def test_a_repeated_claim_needs_no_other_slot(world: World) -> None:
    key = owing(world, "r")
    lease, _ = begun(world, key, "a")
    again = world.ask(key, "a")

    assert isinstance(again, Lease)
    assert again.token == lease.token


def test_a_claim_without_a_slot_is_never_granted(world: World) -> None:
    key = owing(world, "r")
    needed = needs(world, key)

    for wrong in ("", "1", needed.number + "0"):
        answer = show(world, key, wrong)
        assert isinstance(answer, Refused)
        assert answer.status == "slot"
    assert isinstance(show(world, key, needed.number), Lease)


def test_what_needs_no_slot_any_more_is_claimed_without(world: World) -> None:
    assert isinstance(show(world, owing(world, "r"), "none"), Lease)


def test_other_refusals_come_before_that_of_a_slot(world: World) -> None:
    key = owing(world, "r")
    world.flag("pause")
    assert world.refused(key) == "paused"
    world.flag("resume")
    lease, _ = begun(world, key)
    assert world.refused(key) == "held"
    world.leases.release(lease, counted=True, delay_ms=5_000)
    assert world.refused(key) == "early"


def test_the_name_of_its_slots_goes_with_an_effect(world: World) -> None:
    key = owing(world, "r", "a b/c:%ü")
    assert world.entry("pay").slots == "limited.pay:a%20b%2Fc%3A%25%C3%BC"
    lease, _ = begun(world, key)
    world.fire("r", "paid", warrant=token(lease))

    assert world.record().entries == ()
    fields = scripts.read(world.client, "HKEYS", world.keys.record("r"))
    assert [name for name in fields if name.startswith(b"s:")] == []


def test_an_effect_that_needs_a_slot_is_never_leased_by_a_commit(world: World) -> None:
    world.create("r", {"tenant": "acme"}, machine="limited")
    fired = world.fire("r", "pay", initial_lease=InitialLease("n", "here", LEASE_MS))

    assert world.state_of("pay") == "owed"
    assert [message.name for message in fired.owed] == ["pay"]


@pytest.mark.parametrize(
    ("tenant", "why"),
    [
        (7, "slot_key of paying raised TypeError: it returned 7, and a key is a text"),
        ("x" * 201, "its key has 201 characters; at most 200 are allowed"),
    ],
)
def test_what_is_no_key_changes_nothing(world: World, tenant: object, why: str) -> None:
    world.create("r", {"tenant": tenant}, machine="limited")
    with pytest.raises(TableFunctionError) as refusal:
        world.fire("r", "pay")

    assert why in str(refusal.value)
    assert world.record().state == "idle"


def test_a_key_that_raises_is_named(world: World) -> None:
    world.create("r", {}, machine="limited")
    with pytest.raises(TableFunctionError) as refusal:
        world.fire("r", "pay")

    assert "limited: slot_key of paying raised KeyError: 'tenant'" in str(refusal.value)
    assert "machines_limited.py" in str(refusal.value)


def test_slots_are_checked_soon_while_somebody_waits_and_else_seldom(world: World) -> None:
    slots, partition = world.leases.slots, partition_of(ACME)
    keys = [owing(world, f"r{n}") for n in range(3)]
    lease, stamp = begun(world, keys[0])
    assert slots.names() == [ACME]
    world.later(CHECK_SELDOM_MS - 1)
    assert slots.due(partition, 10) == []
    world.later(1)
    assert slots.due(partition, 10) == [ACME]
    found = slots.poll(ACME)
    assert found is not None
    assert [(one.key, one.stamp, one.age_ms) for one in found] == [
        (keys[0], stamp, CHECK_SELDOM_MS)
    ]
    assert slots.poll(ACME) is None, "another sweep polls them"
    assert slots.names() == [ACME], "one effect has a slot"
    assert slots.due(partition, 10) == []
    begun(world, keys[1])
    begin(world, keys[2])
    world.later(CHECK_MS)
    assert slots.due(partition, 10) == [ACME]
    assert slots.poll(ACME)
    world.later(CHECK_MS - 1)
    assert slots.due(partition, 10) == []
    world.later(1)
    release(world, lease.key, stamp)
    found = slots.poll(ACME)
    assert found is not None
    assert (keys[2], OFFERED, 0) in [(one.key, one.stamp, one.age_ms) for one in found]


def test_slots_that_nobody_has_are_forgotten(world: World) -> None:
    key = owing(world, "r")
    lease, stamp = begun(world, key)
    world.fire("r", "paid", warrant=token(lease))
    release(world, key, stamp)
    world.later(CHECK_SELDOM_MS)

    assert world.leases.slots.poll(ACME) == []
    assert world.leases.slots.names() == []
    assert world.leases.slots.poll(ACME) is None
