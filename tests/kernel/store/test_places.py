"""One at a time in a shared place, and leases handed from one process to another."""

from __future__ import annotations

from dataclasses import replace

import pytest

from interlock.kernel.errors import FencedError
from interlock.kernel.store.leases import Lease, Order, Refused
from tests.kernel.store.invariants import holds
from tests.kernel.store.kernel_at_a_fixed_time import LIMITS, World, token
from tests.kernel.store.tables import BUILD, GRACE_MS, LEASE_MS, WORK


def adopted(world: World, lease: Lease, nonce: str = "k") -> Lease:
    return world.leases.adopt(lease.key, BUILD, lease.token, nonce=nonce, holder="supervisor")


def test_a_lost_holder_of_a_place_keeps_it_until_it_is_surely_gone(world: World) -> None:
    world.at("building")
    lease = world.claim("build")
    world.later(LEASE_MS)

    assert world.poll_status(lease.key) == "later"
    assert world.state_of("build") == "lapsed"
    assert world.refused(lease.key, "b") == "busy"
    assert world.score(lease.key) == world.now + GRACE_MS
    world.later(GRACE_MS)
    assert world.poll_status(lease.key) == "publish"
    assert world.claim("build", "b").attempt == 2


def test_work_that_shares_no_place_need_not_wait_for_it(world: World) -> None:
    world.at("building")
    world.claim("build")
    world.fire("r", "revise")

    assert world.state_of("build") == "draining"
    assert isinstance(world.ask(world.key("work"), "b"), Lease)


def test_work_that_shares_no_place_starts_again_as_soon_as_it_lapsed(world: World) -> None:
    world.at("working")
    lease = world.claim()
    world.later(LEASE_MS)

    assert world.poll_status(lease.key) == "publish"
    assert world.claim(nonce="b").attempt == 2


def test_who_is_owed_a_place_waits_for_the_one_that_was_revoked(world: World) -> None:
    world.at("building")
    lease = world.claim("build")
    kill_by = world.entry("build").kill_by
    world.fire("r", "cancel")
    key = world.key("clear")

    assert (world.state_of("build"), world.refused(key)) == ("draining", "busy")
    assert world.ask(key, "b") == Refused("busy", str(kill_by))
    world.later(LIMITS.poll_ms)
    assert world.poll_status(key) == "later"
    assert world.score(key) == kill_by
    world.settle(lease)
    assert world.score(key) == world.now
    assert isinstance(world.ask(key, "b"), Lease)


def test_who_confirms_by_giving_back_frees_the_place_as_well(world: World) -> None:
    world.at("building")
    lease = world.claim("build")
    world.fire("r", "cancel")
    key = world.key("clear")

    assert world.leases.release(lease, counted=False) == "gone"
    assert world.score(key) == world.now
    assert isinstance(world.ask(key, "b"), Lease)


def test_a_place_whose_holder_never_confirms_is_free_at_its_fixed_end(world: World) -> None:
    world.at("building")
    lease = world.claim("build")
    world.fire("r", "cancel")
    key = world.key("clear")
    world.later(LEASE_MS + GRACE_MS - 1)
    assert world.refused(key) == "busy"
    world.later(1)
    assert world.poll_status(lease.key) == "gone"

    assert world.score(key) == world.now
    assert isinstance(world.ask(key, "b"), Lease)


def test_a_new_round_waits_until_the_old_one_has_left_the_place(world: World) -> None:
    world.at("building")
    first = world.claim("build")
    world.fire("r", "again")
    owed = [one for one in world.record().entries if one.state == "owed"]
    fresh = next(one.key("r") for one in owed if one.name == "build")

    assert world.refused(fresh) == "busy"
    assert world.renew(first) is Order.STOP
    world.settle(first)
    assert isinstance(world.ask(fresh, "b"), Lease)
    holds(world, "r")


def test_a_live_holder_keeps_its_siblings_out_however_old_its_lease(world: World) -> None:
    world.at("building")
    world.fire("r", "again")
    clear = world.claim("clear")
    key = world.key("build")
    world.later(LEASE_MS * 10)

    assert world.refused(key, "b") == "busy"
    world.make_due(key)
    assert world.poll_status(key, gate_open=False) == "later"
    assert world.score(key) == world.now + LIMITS.poll_ms
    world.settle(clear)
    assert isinstance(world.ask(key, "b"), Lease)


def test_an_outcome_frees_the_place_for_what_it_owes(world: World) -> None:
    world.at("building")
    lease = world.claim("build")
    world.fire(lease.record, "done", warrant=token(lease))

    assert isinstance(world.ask(world.key("clear"), "b"), Lease)


def test_a_released_place_is_free_at_once(world: World) -> None:
    world.at("building")
    lease = world.claim("build")
    world.leases.release(lease, counted=True)

    assert world.entry("build").kill_by == world.now
    assert world.claim("build", "b").attempt == 2


def test_a_place_that_is_freed_shortens_no_delay(world: World) -> None:
    world.at("building")
    world.fire("r", "again")
    delayed, sibling = world.claim("build"), world.key("clear")
    world.leases.release(delayed, delay_ms=LEASE_MS, counted=True)
    assert world.score(sibling) == world.now
    world.settle(world.claim_key(sibling))

    assert world.score(delayed.key) == world.now + LEASE_MS


def test_used_up_attempts_in_a_place_are_set_aside_only_when_it_is_free(world: World) -> None:
    world.at("building")
    world.let_losses_count("build")
    for nonce in ("a", "b"):
        key = world.claim("build", nonce).key
        world.later(LEASE_MS)
        assert world.poll_status(key) == "later"
        assert world.state_of("build") == "lapsed"
        world.later(GRACE_MS)
        world.poll()

    assert world.state_of("build") == "quarantined"
    holds(world, "r")


def test_a_crash_of_what_was_carried_is_reported_at_once_and_the_place_still_kept(
    world: World,
) -> None:
    world.at("building")
    lease = world.claim("build")
    world.fire(lease.record, "go_on", warrant=token(lease))
    world.later(LEASE_MS)

    assert world.poll_status(lease.key) == "crash"
    assert world.state_of("build") == "lapsed"


def test_waiting_for_a_place_does_not_wear_out_the_looks(world: World) -> None:
    world.at("building")
    lease = world.claim("build")
    world.fire("r", "cancel")
    key = world.key("clear")
    for _ in range(12):
        world.make_due(key)
        assert world.poll_status(key) == "later"
    world.settle(lease)
    assert world.poll_status(key) == "publish"
    score = world.score(key)

    assert score is not None
    assert score <= world.now + 4 * LIMITS.poll_ms


def test_a_place_that_is_freed_under_pause_wakes_nobody(world: World) -> None:
    world.at("building")
    first = world.claim("build")
    world.fire("r", "again")
    world.flag("pause")
    world.settle(first)
    key = world.key("build")

    assert world.score(key) is None
    world.flag("resume")
    assert world.score(key) == world.now


def test_an_adopted_lease_goes_on_under_a_new_token_and_no_new_attempt(world: World) -> None:
    world.at("building")
    former = world.claim("build")
    world.later(5_000)
    taken = adopted(world, former)

    assert (taken.attempt, taken.key, taken.kind) == (former.attempt, former.key, former.kind)
    assert taken.token_number > former.token_number
    assert world.entry("build").holder == "supervisor"
    assert world.entry("build").lease_until == world.now + LEASE_MS
    assert world.entry("build").kill_by == world.now + LEASE_MS + GRACE_MS
    assert world.score(taken.key) == world.now + LEASE_MS
    assert world.notes()[-1].kind == "adopt"
    assert world.notes()[-1].detail["token"] == taken.token


def test_the_former_holder_is_fenced(world: World) -> None:
    world.at("building")
    former = world.claim("build")
    taken = adopted(world, former)

    assert world.renew(former) is Order.LOST
    assert world.leases.release(former, counted=False) == "lost"
    assert world.settle(former).status == "lost"
    assert world.fails("done", token(former)) == "FencedError"
    assert world.fire("r", "done", warrant=token(taken)).version == 3


def test_a_repeated_adoption_gets_its_own_lease_back_and_renews_it(world: World) -> None:
    world.at("building")
    former = world.claim("build")
    first = adopted(world, former)
    world.later(3_000)
    again = adopted(world, former)

    assert again.token == first.token
    assert world.entry("build").lease_until == world.now + LEASE_MS
    assert [note.kind for note in world.notes()].count("adopt") == 1


def test_only_who_names_the_holders_token_adopts_its_lease(world: World) -> None:
    world.at("building")
    former = world.claim("build")
    adopted(world, former)

    with pytest.raises(FencedError):
        adopted(world, former, "other")


def test_the_dash_that_stands_for_no_token_is_nobodys_token(world: World) -> None:
    world.at("building")
    former = world.claim("build")
    world.leases.release(former, counted=False)
    nobody = replace(former, token="-")

    assert world.renew(nobody) is Order.LOST
    assert world.leases.release(nobody, counted=False) == "lost"
    with pytest.raises(FencedError):
        adopted(world, nobody)
    assert world.state_of("build") == "owed"


def test_what_has_ended_is_not_adopted(world: World) -> None:
    world.at("building")
    former = world.claim("build")
    world.fire("r", "done", warrant=token(former))

    with pytest.raises(FencedError):
        adopted(world, former)


def test_what_was_revoked_or_given_back_is_not_adopted(world: World) -> None:
    world.at("building")
    former = world.claim("build")
    world.leases.release(former, counted=False)
    with pytest.raises(FencedError):
        adopted(world, former)
    again = world.claim("build", "b")
    world.fire("r", "cancel")

    with pytest.raises(FencedError):
        adopted(world, again)
    assert world.state_of("build") == "draining"
    assert world.entry("build").holder == "here"


def test_an_adopted_token_is_higher_even_when_the_clock_goes_back(world: World) -> None:
    world.at("building")
    former = world.claim("build")
    world.later(-3_600_000)

    assert adopted(world, former).token_number == former.token_number + 1


def test_a_lapsed_lease_that_is_adopted_lives_again(world: World) -> None:
    world.at("working")
    former = world.claim()
    world.later(LEASE_MS)
    world.poll()
    world.leases.adopt(former.key, WORK, former.token, nonce="k", holder="supervisor")

    assert world.state_of() == "leased"
    assert world.refused(former.key, "b") == "held"


def test_adopting_ends_a_quarantine(world: World) -> None:
    world.at("polishing")
    world.let_losses_count("polish")
    for nonce in ("a", "b"):
        former = world.claim("polish", nonce)
        world.later(LEASE_MS * 2)
        world.poll()
    world.later(LEASE_MS)
    world.make_due(former.key)
    world.poll()
    assert world.state_of("polish") == "quarantined"
    effect = world.lifecycle.machines["life"].effects["polish"]
    world.leases.adopt(former.key, effect, former.token, nonce="k", holder="supervisor")

    assert world.state_of("polish") == "leased"
    holds(world, "r")


def test_what_is_carried_may_still_be_adopted(world: World) -> None:
    world.at("building")
    former = world.claim("build")
    world.fire(former.record, "go_on", warrant=token(former))
    taken = adopted(world, former)
    world.later(LEASE_MS)

    assert world.poll_status(taken.key) == "crash"
    assert world.entry("build").no_restart


def test_a_place_that_is_freed_wakes_nothing_that_does_not_need_it(world: World) -> None:
    world.at("building")
    lease = world.claim("build")
    world.fire("r", "revise")
    key = world.key("work")
    before = world.score(key)
    world.settle(lease)

    assert world.score(key) == before


def sharing(world: World) -> str:
    """Owe an effect that needs no place and one that does; return the id of the latter."""
    world.at("building")
    world.fire("r", "again")
    world.fire("r", "revise")
    assert (world.state_of("work"), world.state_of("build")) == ("owed", "gone")
    return world.key("clear")


def test_work_that_shares_no_place_keeps_nobody_out_of_it(world: World) -> None:
    key = sharing(world)
    world.claim("work")

    assert isinstance(world.ask(key, "b"), Lease)


def test_work_that_shares_no_place_wakes_nobody_when_it_ends(world: World) -> None:
    key = sharing(world)
    before, lease = world.score(key), world.claim("work")
    world.later(1)
    world.fire("r", "done", warrant=token(lease))

    assert world.score(key) == before != world.now


def test_a_place_that_is_freed_wakes_the_lost_work_that_waits_for_it(world: World) -> None:
    world.at("building")
    world.fire("r", "again")
    lost = world.claim("build")
    world.later(LEASE_MS)
    world.poll()
    world.later(GRACE_MS)
    clear = world.claim("clear")
    assert world.state_of("build") == "lapsed"
    world.later(1)
    world.settle(clear)

    assert world.score(lost.key) == world.now
