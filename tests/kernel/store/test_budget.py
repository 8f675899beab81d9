"""Money: reserved before, settled after, bounded for a whole family, never leaked."""

from __future__ import annotations

import pytest

from interlock.kernel.errors import FencedError
from tests.kernel.store.contents import stored
from tests.kernel.store.kernel_at_a_fixed_time import World, token
from tests.kernel.store.tables import GRACE_MS, LEASE_MS


def sums(world: World, of: str = "r") -> tuple[int, int, int]:
    """Return what a family spent, holds and may have lost."""
    found = [world.counter(f"tree.{name}", of) for name in ("spent", "reserved", "residue")]
    return found[0], found[1], found[2]


def capped(world: World, cap: int = 100) -> None:
    world.create("r", cap=cap)
    world.fire("r", "begin")


def test_a_reservation_is_held_until_the_outcome_says_what_was_spent(world: World) -> None:
    capped(world)
    lease = world.claim()
    assert world.leases.reserve(lease, 80)
    assert sums(world) == (0, 80, 0)
    world.fire("r", "done", warrant=token(lease), deltas={"spent": 33})

    assert sums(world) == (33, 0, 0)
    assert world.counter("spent") == 33


def test_what_does_not_fit_is_not_reserved(world: World) -> None:
    capped(world)
    lease = world.claim()

    assert not world.leases.reserve(lease, 101)
    assert sums(world) == (0, 0, 0)
    assert world.leases.reserve(lease, 100)


def test_a_repeated_reservation_replaces_its_own(world: World) -> None:
    capped(world)
    lease = world.claim()

    assert [world.leases.reserve(lease, 60) for _ in range(3)] == [True] * 3
    assert sums(world) == (0, 60, 0)


def test_only_a_current_holder_reserves(world: World) -> None:
    capped(world)
    lease = world.claim()
    world.fire("r", "again")

    with pytest.raises(FencedError):
        world.leases.reserve(lease, 1)


def test_what_a_lost_holder_may_have_spent_is_residue(world: World) -> None:
    capped(world)
    lease = world.claim(nonce="a")
    world.leases.reserve(lease, 70)
    world.later(LEASE_MS)
    world.poll()
    assert sums(world) == (0, 70, 0)
    second = world.claim(nonce="b")

    assert sums(world) == (0, 0, 70)
    assert not world.leases.reserve(second, 31)
    assert world.leases.reserve(second, 30)


def test_what_a_revoked_holder_may_have_spent_is_residue_when_it_never_answers(
    world: World,
) -> None:
    capped(world)
    lease = world.claim()
    world.leases.reserve(lease, 70)
    world.fire("r", "cancel")
    assert sums(world) == (0, 70, 0)
    world.later(LEASE_MS + GRACE_MS)
    world.poll()

    assert sums(world) == (0, 0, 70)


def test_a_revoked_holder_that_answers_leaves_no_residue(world: World) -> None:
    capped(world)
    lease = world.claim()
    world.leases.reserve(lease, 70)
    world.fire("r", "cancel")
    world.note(deltas={"spent": 12}, op="late")
    world.settle(lease)

    assert sums(world) == (12, 0, 0)


def test_a_release_gives_the_reservation_back(world: World) -> None:
    capped(world)
    lease = world.claim()
    world.leases.reserve(lease, 70)
    world.leases.release(lease, counted=True)

    assert sums(world) == (0, 0, 0)


def test_carrying_keeps_the_reservation(world: World) -> None:
    capped(world)
    lease = world.claim()
    world.leases.reserve(lease, 70)
    world.fire("r", "go_on", warrant=token(lease))
    assert sums(world) == (0, 70, 0)
    world.fire("r", "done", warrant=token(lease), deltas={"spent": 5})

    assert sums(world) == (5, 0, 0)


def test_children_share_the_cap_of_their_root_and_may_have_a_lower_one(world: World) -> None:
    world.create("r", cap=100)
    world.fire("r", "split")
    world.claim("spawn")
    world.create("r/a", countdown="children:2", cap=30)
    world.create("r/b", countdown="children:2")
    leases = {}
    for child in ("r/a", "r/b"):
        world.fire(child, "begin")
        leases[child] = world.claim(of=child)

    assert not world.leases.reserve(leases["r/a"], 31)
    assert world.leases.reserve(leases["r/a"], 30)
    assert not world.leases.reserve(leases["r/b"], 71)
    assert world.leases.reserve(leases["r/b"], 70)
    world.fire("r/b", "fail", warrant=token(leases["r/b"]), deltas={"spent": 50})
    assert sums(world) == (50, 30, 0)
    assert sums(world, "r/b") == (50, 0, 0)
    assert world.counter("spent") == 0


def test_an_amount_of_zero_is_not_written_into_the_records_above(world: World) -> None:
    world.split()
    world.create_child("r", "a")
    world.note("r/a", deltas={"spent": 0}, op="bill")

    assert "n:r" not in stored(world)
