"""Budgets: reserved before, counted after, bounded for a whole family, never leaked."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from interlock.kernel.errors import FencedError
from interlock.kernel.store.leases import Lease, Shortage
from tests.kernel.store.contents import stored
from tests.kernel.store.kernel_at_a_fixed_time import World, token
from tests.kernel.store.tables import GRACE_MS, LEASE_MS


def sums(world: World, of: str = "r") -> tuple[int, int, int]:
    """Return what a family spent, holds and may have lost."""
    found = [world.counter(f"{kind}.spent", of) for kind in ("tree", "reserved", "residue")]
    return found[0], found[1], found[2]


def capped(world: World, cap: int = 100) -> None:
    world.create("r", cap=cap)
    world.fire("r", "begin")


def test_a_reservation_is_held_until_the_outcome_says_what_was_spent(world: World) -> None:
    capped(world)
    lease = world.claim()
    assert world.reserve(lease, 80) == "reserved"
    assert sums(world) == (0, 80, 0)
    world.fire("r", "done", warrant=token(lease), deltas={"spent": 33})

    assert sums(world) == (33, 0, 0)
    assert world.counter("spent") == 33


def test_what_does_not_fit_is_not_reserved(world: World) -> None:
    capped(world)
    lease = world.claim()

    assert world.reserve(lease, 101) == "over"
    assert sums(world) == (0, 0, 0)
    assert world.reserve(lease, 100) == "reserved"


def test_a_repeated_reservation_replaces_its_own(world: World) -> None:
    capped(world)
    lease = world.claim()

    assert [world.reserve(lease, 60) for _ in range(3)] == ["reserved"] * 3
    assert sums(world) == (0, 60, 0)


def test_only_a_current_holder_reserves(world: World) -> None:
    capped(world)
    lease = world.claim()
    world.fire("r", "again")

    with pytest.raises(FencedError):
        world.reserve(lease, 1)


def test_what_a_lost_holder_may_have_spent_is_residue(world: World) -> None:
    capped(world)
    lease = world.claim(nonce="a")
    world.reserve(lease, 70)
    world.later(LEASE_MS)
    world.poll()
    assert sums(world) == (0, 70, 0)
    second = world.claim(nonce="b")

    assert sums(world) == (0, 0, 70)
    assert world.reserve(second, 31) == "over"
    assert world.reserve(second, 30) == "reserved"


def test_what_a_revoked_holder_may_have_spent_is_residue_when_it_never_answers(
    world: World,
) -> None:
    capped(world)
    lease = world.claim()
    world.reserve(lease, 70)
    world.fire("r", "cancel")
    assert sums(world) == (0, 70, 0)
    world.later(LEASE_MS + GRACE_MS)
    world.poll()

    assert sums(world) == (0, 0, 70)


def test_a_revoked_holder_that_answers_leaves_no_residue(world: World) -> None:
    capped(world)
    lease = world.claim()
    world.reserve(lease, 70)
    world.fire("r", "cancel")
    world.note(deltas={"spent": 12}, op="late")
    world.settle(lease)

    assert sums(world) == (12, 0, 0)


def test_a_release_gives_the_reservation_back(world: World) -> None:
    capped(world)
    lease = world.claim()
    world.reserve(lease, 70)
    world.leases.release(lease, counted=True)

    assert sums(world) == (0, 0, 0)


def test_carrying_keeps_the_reservation(world: World) -> None:
    capped(world)
    lease = world.claim()
    world.reserve(lease, 70)
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

    assert world.reserve(leases["r/a"], 31) == "over"
    assert world.reserve(leases["r/a"], 30) == "reserved"
    assert world.reserve(leases["r/b"], 71) == "waits"
    assert world.reserve(leases["r/b"], 70) == "reserved"
    world.fire("r/b", "fail", warrant=token(leases["r/b"]), deltas={"spent": 50})
    assert sums(world) == (50, 30, 0)
    assert sums(world, "r/b") == (50, 0, 0)
    assert world.counter("spent") == 0


def family(world: World, *names: str, **bounds: int) -> list[Lease]:
    """Create a family with caps, and claim the effect of each child."""
    world.create("r", bounds=bounds)
    world.fire("r", "split")
    world.claim("spawn")
    for name in names:
        world.create(f"r/{name}", countdown="children:2")
        world.fire(f"r/{name}", "begin")
    return [world.claim(of=f"r/{name}") for name in names]


def test_each_cap_has_a_name_and_limits_what_is_counted_under_it(world: World) -> None:
    first, second = family(world, "a", "b", tokens=100, spent=50)

    assert world.reserve(first, 50, tokens=60, calls=1_000) == "reserved"
    assert world.reserve(second, tokens=40) == "reserved"
    assert world.reserve(second, 51) == "over", "of money"
    shortage = world.leases.reserve(second, {"tokens": 101})
    assert shortage == Shortage("r", "tokens", asked=101, left=100, cap=100, may_pass=False)
    world.fire("r/a", "done", warrant=token(first), deltas={"spent": 20, "tokens": 60})
    assert [world.counter(f"tree.{name}") for name in ("spent", "tokens")] == [20, 60]
    assert [world.counter(f"reserved.{name}") for name in ("spent", "tokens")] == [0, 40]
    assert world.counter("reserved.calls") == 0, "what has no cap is reserved as well"


def test_what_only_others_have_reserved_is_waited_for_and_what_is_spent_is_not(
    world: World,
) -> None:
    first, second = family(world, "a", "b", tokens=100)
    world.reserve(first, tokens=70)

    shortage = world.leases.reserve(second, {"tokens": 40})
    assert shortage == Shortage("r", "tokens", asked=40, left=30, cap=100, may_pass=True)
    world.report(first, tokens=50)
    assert world.reserve(second, tokens=40) == "waits", "20 of 70 are reserved still"
    world.fire("r/a", "done", warrant=token(first), deltas={"tokens": 11})
    assert world.reserve(second, tokens=40) == "over"
    assert world.reserve(second, tokens=39) == "reserved"


def test_who_waits_has_nothing_reserved_so_that_no_two_wait_for_each_other(world: World) -> None:
    first, second = family(world, "a", "b", tokens=100, calls=10)
    world.reserve(first, tokens=60)
    world.reserve(second, calls=6)

    assert world.reserve(first, tokens=60, calls=6) == "waits"
    assert world.counter("reserved.tokens") == 0
    assert world.reserve(second, tokens=60, calls=6) == "reserved"
    assert world.reserve(first, tokens=40, calls=4) == "reserved"


def test_what_is_over_a_cap_leaves_the_earlier_reservation(world: World) -> None:
    capped(world)
    lease = world.claim()
    world.reserve(lease, 60, tokens=5)

    assert world.reserve(lease, 101) == "over"
    assert (sums(world), world.counter("reserved.tokens")) == ((0, 60, 0), 5)


def test_what_a_holder_reports_is_taken_out_of_what_it_has_reserved(world: World) -> None:
    capped(world)
    lease = world.claim()
    world.reserve(lease, 60, tokens=5)
    for _ in range(3):
        world.report(lease, op="lost reply", spent=20, tokens=9)

    assert sums(world) == (20, 40, 0)
    assert [world.counter(f"{kind}.tokens") for kind in ("tree", "reserved")] == [9, 0]
    world.report(lease, spent=50)
    assert sums(world) == (70, 0, 0), "it was used, though more than was reserved"
    world.fire("r", "done", warrant=token(lease), deltas={"spent": 1})
    assert sums(world) == (71, 0, 0)


def test_a_late_report_takes_its_own_share_out_of_the_residue(world: World) -> None:
    capped(world, 1_000)
    leases = []
    for nonce in ("a", "b", "c"):
        leases.append(world.claim(nonce=nonce))
        world.reserve(leases[-1], 100)
        if nonce != "c":
            world.later(LEASE_MS)
            world.poll()
    assert sums(world) == (0, 100, 200)

    world.report(leases[0], spent=30)
    assert sums(world) == (30, 100, 170)
    world.report(leases[0], has_ended=True, spent=10)
    world.report(leases[0], has_ended=True, spent=1)
    assert sums(world) == (41, 100, 100)
    world.report(leases[2], spent=60)
    world.fire("r", "done", warrant=token(leases[2]))
    assert sums(world) == (101, 0, 100), "what the second may have used is not known"


def test_a_record_keeps_what_lost_holders_had_reserved_until_they_have_reported_all_of_it(
    world: World,
) -> None:
    def kept() -> dict[str, str]:
        fields = stored(world)["r:r"]
        return {name: text for name, text in fields.items() if name.startswith("l:")}

    capped(world)
    for nonce in ("a", "b"):
        lease = world.claim(nonce=nonce)
        world.later(LEASE_MS)
        world.poll()
    lease = world.claim(nonce="c")
    assert kept() == {}, "nothing was reserved"
    world.reserve(lease, 70, tokens=5)
    world.later(LEASE_MS)
    world.poll()
    world.claim(nonce="d")
    assert [sorted(text.split(",")) for text in kept().values()] == [["spent=70", "tokens=5"]]
    world.report(lease, tokens=5)
    assert kept() == {f"l:{lease.token}": "spent=70"}
    world.report(lease, spent=70)
    assert kept() == {}


def test_a_report_after_the_end_of_the_record_counts(world: World) -> None:
    capped(world)
    lease = world.claim()
    world.reserve(lease, 70)
    world.fire("r", "cancel")
    world.later(LEASE_MS + GRACE_MS)
    world.poll()
    assert sums(world) == (0, 0, 70)

    world.report(lease, has_ended=True, spent=12)
    assert sums(world) == (12, 0, 0)


def test_a_paused_effect_reserves_nothing_once_its_holder_is_surely_dead(world: World) -> None:
    capped(world)
    lease = world.claim()
    world.reserve(lease, 70)
    world.flag("pause")
    world.later(LEASE_MS)
    world.poll()
    assert sums(world) == (0, 70, 0)
    world.later(GRACE_MS)
    world.poll()

    assert sums(world) == (0, 0, 70)
    world.report(lease, has_ended=True, spent=12)
    assert sums(world) == (12, 0, 0)


def test_sixteen_that_race_for_one_cap_never_pass_it_and_all_that_fits_fits(world: World) -> None:
    leases = family(world, *"abcdefghijklmnop", tokens=1_000)
    line = Barrier(len(leases))
    over = []

    def work(lease: Lease) -> None:
        line.wait(180)
        while (answer := world.reserve(lease, tokens=100)) == "waits":
            left = 1_000 - world.counter("tree.tokens") - world.counter("reserved.tokens")
            assert left >= 0
        if answer == "over":
            over.append(lease)
            return
        world.report(lease, tokens=80)
        world.fire(lease.record.id, "done", warrant=token(lease))

    with ThreadPoolExecutor(len(leases)) as threads:
        list(threads.map(work, leases))

    fits = (1_000 - 100) // 80 + 1
    assert len(leases) - len(over) == fits
    assert world.counter("tree.tokens") == 80 * fits
    assert world.counter("reserved.tokens") == 0


def test_an_amount_of_zero_is_not_written_into_the_records_above(world: World) -> None:
    world.split()
    world.create_child("r", "a")
    world.note("r/a", deltas={"spent": 0}, op="bill")

    assert "n:r" not in stored(world)
