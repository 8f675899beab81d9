"""Who gets an effect: claim, renew and release, for each state of an entry."""

from __future__ import annotations

from dataclasses import replace

import pytest

from interlock.kernel.errors import FencedError
from interlock.kernel.store.leases import Lease, Order, Refused
from interlock.kernel.store.scripts import read
from tests.kernel.store.kernel_at_a_fixed_time import LOSSES_FREE, World, token
from tests.kernel.store.machines_runs import CODON, begun
from tests.kernel.store.tables import GRACE_MS, LEASE_MS


def test_an_owed_effect_is_leased_with_the_record(world: World) -> None:
    world.at("working")
    lease = world.claim(nonce="a")

    assert lease.record.state == "working"
    assert lease.attempt == 1
    assert lease.token == f"{world.now * 1_000}-a"
    assert world.state_of() == "leased"
    assert world.score(lease.key) == world.now + LEASE_MS


def test_a_leased_effect_is_held_by_its_holder(world: World) -> None:
    world.at("working")
    key = world.key()
    world.claim(nonce="a")

    assert world.refused(key, "b") == "held"


def test_a_lease_that_is_over_but_not_marked_stays_held(world: World) -> None:
    world.at("working")
    lease = world.claim(nonce="a")
    world.later(LEASE_MS * 100)

    assert world.refused(lease.key, "b") == "held"


def test_a_repeated_claim_gets_its_own_lease_back_and_renews_it(world: World) -> None:
    world.at("working")
    first = world.claim(nonce="a")
    world.later(5_000)
    again = world.ask(first.key, "a")

    assert isinstance(again, Lease)
    assert again.token == first.token
    assert again.attempt == 1
    assert world.entry().lease_until == world.now + LEASE_MS
    assert world.score(first.key) == world.now + LEASE_MS


def test_a_repeated_claim_of_a_lapsed_lease_takes_it_up_again(world: World) -> None:
    world.at("working")
    first = world.claim(nonce="a")
    world.later(LEASE_MS)
    assert world.poll_status(first.key) == "publish"
    again = world.ask(first.key, "a")

    assert isinstance(again, Lease)
    assert again.token == first.token
    assert world.state_of() == "leased"


def test_a_lapsed_effect_goes_to_the_next_who_asks_and_fences_the_first(world: World) -> None:
    world.at("working")
    first = world.claim(nonce="a")
    world.later(LEASE_MS)
    world.poll()
    second = world.claim(nonce="b")

    assert second.attempt == 2
    assert second.token_number > first.token_number
    assert world.renew(first) is Order.LOST
    with pytest.raises(FencedError):
        world.fire("r", "done", warrant=token(first))
    assert world.fire("r", "done", warrant=token(second)).version == 3


def test_a_token_is_higher_than_the_last_one_even_when_the_clock_goes_back(world: World) -> None:
    world.at("working")
    first = world.claim(nonce="a")
    world.later(LEASE_MS)
    world.poll()
    world.later(-3_600_000)

    assert world.claim(nonce="b").token_number == first.token_number + 1


def test_an_unknown_effect_is_gone(world: World) -> None:
    world.at("working")

    assert world.refused("r:2.0:nothing") == "gone"
    assert world.refused(f"{world.key()}x") == "gone"


def test_a_message_of_another_effect_is_refused(world: World) -> None:
    world.at("asking")
    suffix = world.entry("notify").suffix
    world.fire("r", "revise")
    answer = world.leases.claim(
        world.key("work"),
        world.lifecycle.machines["life"].effects["polish"],
        nonce="a",
        holder="h",
        schema=1,
    )

    assert isinstance(answer, Refused)
    assert answer.status == "other"
    assert world.state_of("work") == "owed"
    assert suffix


def test_a_draining_effect_is_gone_for_whoever_claims(world: World) -> None:
    world.at("working")
    lease = world.claim(nonce="a")
    world.fire("r", "cancel")

    assert world.state_of() == "draining"
    assert world.refused(lease.key, "b") == "gone"
    assert world.refused(lease.key, "a") == "gone"


def test_a_paused_record_gives_nothing(world: World) -> None:
    world.at("working")
    key = world.key()
    world.flag("pause")

    assert world.refused(key) == "paused"


def test_a_carried_effect_never_starts_again(world: World) -> None:
    world.at("working")
    lease = world.claim(nonce="a")
    world.fire(lease.record, "go_on", warrant=token(lease))
    world.later(LEASE_MS)

    assert world.poll_status(lease.key) == "crash"
    assert world.refused(lease.key, "b") == "carried"


def test_an_effect_that_may_run_once_may_not_start_again_after_its_claim(world: World) -> None:
    world.at("working", payload={"once": True})
    lease = world.claim(nonce="a")
    world.later(LEASE_MS)

    assert world.poll_status(lease.key) == "crash"
    assert world.refused(lease.key, "b") == "carried"


def test_a_lost_attempt_uses_up_none_that_may_fail(world: World) -> None:
    world.at("working")
    for lost in range(1, LOSSES_FREE + 1):
        world.claim(nonce=f"lost{lost}")
        world.later(LEASE_MS * 4)
        assert world.poll_status(world.key()) == "publish"
        assert (world.entry().attempts, world.entry().attempts_max) == (lost, lost + 2)
    world.leases.release(world.claim(nonce="failed"), counted=True)
    # From now on a lost attempt counts as one that failed.
    world.claim(nonce="last")
    world.later(LEASE_MS * 4)
    assert world.poll_status(world.key()) == "exhausted"
    assert (world.entry().attempts, world.entry().attempts_max) == (LOSSES_FREE + 2,) * 2
    assert world.entry().losses == LOSSES_FREE + 1


def earlier_version_wrote(world: World, *, releases: int) -> None:
    """Let the entry of `work` have a number that counts what was given back, too."""
    field = f"e:{world.entry().suffix}"
    record = world.keys.record("r")
    line = read(world.client, "HGET", record, field).split(b" ")
    line[9] = b"%d" % releases
    world.client.hset(record, field, b" ".join(line))


def test_what_an_earlier_version_counted_is_no_losses(world: World) -> None:
    world.at("working")
    earlier_version_wrote(world, releases=LOSSES_FREE + 1)
    assert world.entry().losses == 0

    world.claim()
    world.later(LEASE_MS * 4)

    assert world.poll_status(world.key()) == "publish"
    assert (world.entry().attempts, world.entry().attempts_max) == (1, 3)
    assert world.entry().losses == 1


def test_an_earlier_version_that_gives_an_effect_back_takes_one_loss_away(world: World) -> None:
    world.at("working")
    for lost in range(2):
        world.claim(nonce=f"lost{lost}")
        world.later(LEASE_MS * 4)
        world.poll()
    field = f"e:{world.entry().suffix}"
    stored = read(world.client, "HGET", world.keys.record("r"), field).split(b" ")[9]
    # It counts up from here, below all its limits.
    assert stored == b"-2"
    earlier_version_wrote(world, releases=int(stored) + 1)

    assert world.entry().losses == 1


def test_a_lost_attempt_before_two_that_fail_gives_it_one_more(world: World) -> None:
    world.at("working")
    world.claim(nonce="lost")
    world.later(LEASE_MS * 4)
    world.poll()
    for failed in range(2):
        world.leases.release(world.claim(nonce=f"failed{failed}"), counted=True)

    assert world.refused(world.key()) == "exhausted"


def test_the_loss_of_an_effect_that_may_be_tried_once_only_ends_it(world: World) -> None:
    begun(world, "preparing")
    key = world.key("step", CODON)
    assert world.entry("step", CODON).attempts_max == 1
    world.later(LEASE_MS * 4)

    assert world.poll_status(key) in ("exhausted", "crash")
    assert world.entry("step", CODON).attempts_max == 1


def test_the_loss_of_an_effect_that_may_not_start_again_gives_it_no_attempt(world: World) -> None:
    world.at("working", payload={"once": True})
    lease = world.claim()
    before = world.entry().attempts_max
    world.later(LEASE_MS)

    assert world.poll_status(lease.key) == "crash"
    assert world.entry().attempts_max == before


def test_attempts_are_bounded(world: World) -> None:
    world.at("working")
    world.let_losses_count()
    for nonce in ("a", "b"):
        world.claim(nonce=nonce)
        world.later(LEASE_MS * 2)
        world.poll()
    key = world.key()

    assert world.state_of() == "lapsed"
    assert world.refused(key, "c") == "exhausted"


def test_a_backoff_is_waited_for(world: World) -> None:
    world.at("working")
    lease = world.claim()
    world.leases.release(lease, delay_ms=7_000, counted=True)

    assert world.refused(lease.key, "b") == "early"
    assert world.score(lease.key) == world.now + 7_000
    world.later(7_000)
    assert isinstance(world.ask(lease.key, "b"), Lease)


def test_an_older_worker_leaves_a_newer_record_alone_and_no_attempt_is_counted(
    world: World,
) -> None:
    world.at("working")
    answer = world.ask(world.key(), schema=0)

    assert isinstance(answer, Refused)
    assert answer.status == "newer"
    assert world.entry().attempts == 0


def test_a_holders_name_cannot_break_the_entry(world: World) -> None:
    world.at("working")
    effect = world.lifecycle.machines["life"].effects["work"]
    lease = world.leases.claim(world.key(), effect, nonce="a", holder='a "b" \n{}', schema=1)

    assert isinstance(lease, Lease)
    assert " " not in world.entry().holder
    assert world.notes()[-1].detail["attempt"] == 1


def test_renewing_prolongs_the_lease_and_says_go(world: World) -> None:
    world.at("working")
    lease = world.claim()
    world.later(6_000)

    assert world.renew(lease) is Order.GO
    assert world.score(lease.key) == world.now + LEASE_MS
    assert world.entry().kill_by == world.now + LEASE_MS + GRACE_MS


def test_a_renewal_with_the_current_token_makes_a_lapsed_lease_live(world: World) -> None:
    world.at("working")
    lease = world.claim()
    world.later(LEASE_MS)
    world.poll()
    assert world.state_of() == "lapsed"

    assert world.renew(lease) is Order.GO
    assert world.state_of() == "leased"
    assert world.refused(lease.key, "b") == "held"


def test_a_renewal_is_told_stop_when_draining_and_prolongs_nothing(world: World) -> None:
    world.at("working")
    lease = world.claim()
    kill_by = world.now + LEASE_MS + GRACE_MS
    world.later(3_000)
    world.fire("r", "cancel")
    world.later(2_000)

    assert world.renew(lease) is Order.STOP
    assert world.entry().kill_by == kill_by
    assert world.score(lease.key) == kill_by


def test_a_renewal_is_told_lost_when_given_back_or_gone(world: World) -> None:
    world.at("working")
    lease = world.claim()
    world.leases.release(lease, counted=False)
    assert world.renew(lease) is Order.LOST

    second = world.claim(nonce="b")
    world.fire("r", "done", warrant=token(second))
    assert world.renew(second) is Order.LOST


def test_an_interrupt_is_told_until_it_is_acknowledged(world: World) -> None:
    world.at("working")
    lease = world.claim()
    world.fire("r", "poke")

    assert world.renew(lease) is Order.INTERRUPT
    assert world.renew(lease) is Order.INTERRUPT
    assert world.renew(lease, acknowledged=1) is Order.GO
    world.fire("r", "poke")
    assert world.renew(lease, acknowledged=1) is Order.INTERRUPT


def test_pause_is_told_before_an_interrupt_and_stop_before_pause(world: World) -> None:
    world.at("working")
    lease = world.claim()
    world.fire("r", "poke")
    world.flag("pause")
    assert world.renew(lease) is Order.PAUSE

    world.fire("r", "again")
    assert world.renew(lease) is Order.STOP


def test_a_new_holder_hears_what_nobody_acknowledged(world: World) -> None:
    world.at("working")
    world.fire("r", "poke")
    lease = world.claim()

    assert lease.interrupts == 1
    assert world.renew(lease) is Order.INTERRUPT


def test_a_new_holder_hears_what_a_lost_one_acknowledged(world: World) -> None:
    world.at("working")
    lost = world.claim()
    world.fire("r", "poke")
    assert world.renew(lost, acknowledged=1) is Order.GO
    world.later(LEASE_MS)
    world.poll()

    assert world.renew(world.claim(nonce="b")) is Order.INTERRUPT


def test_an_effect_that_is_given_back_uncounted_uses_up_nothing_however_often(world: World) -> None:
    world.at("working")
    for turn in range(30):
        lease = world.claim(nonce=f"n{turn}")
        assert lease.attempt == 1
        assert world.leases.release(lease, counted=False) == "owed"

    assert (world.entry().attempts, world.entry().losses) == (0, 0)
    for lost in range(LOSSES_FREE):
        world.claim(nonce=f"lost{lost}")
        world.later(LEASE_MS * 4)
        assert world.poll_status(world.key()) == "publish"
    for failed in range(2):
        world.leases.release(world.claim(nonce=f"failed{failed}"), counted=True)
    assert world.refused(world.key()) == "exhausted"


def test_a_counted_release_counts(world: World) -> None:
    world.at("working")
    world.leases.release(world.claim(nonce="a"), counted=True)

    assert world.claim(nonce="b").attempt == 2


def test_a_carried_effect_that_is_released_is_lapsed_at_once(world: World) -> None:
    world.at("working")
    lease = world.claim()
    world.fire(lease.record, "go_on", warrant=token(lease))

    assert world.leases.release(lease, counted=False) == "lapsed"
    assert world.poll_status(lease.key) == "crash"


def test_releasing_a_draining_effect_says_that_the_work_is_gone(world: World) -> None:
    world.at("working")
    lease = world.claim()
    world.fire("r", "cancel")

    assert world.leases.release(lease, counted=False) == "gone"
    assert world.state_of() == "gone"
    assert world.score(lease.key) is None


def test_only_the_holder_can_release(world: World) -> None:
    world.at("working")
    lease = world.claim(nonce="a")
    world.leases.release(lease, counted=True)

    assert world.leases.release(lease, counted=True) == "lost"
    world.claim(nonce="b")
    assert world.leases.release(lease, counted=True) == "lost"
    assert world.state_of() == "leased"


def test_a_release_under_pause_stays_off_the_index(world: World) -> None:
    world.at("working")
    lease = world.claim()
    world.flag("pause")

    assert world.leases.release(lease, counted=False) == "owed"
    assert world.score(lease.key) is None


def test_who_gave_an_effect_back_neither_settles_it_nor_reserves_for_it(world: World) -> None:
    world.at("asking")
    lease = world.claim("notify")
    world.leases.release(lease, counted=False)

    assert world.entry("notify").holder == ""
    # The second has what stands in the store for the token of an effect that nobody holds.
    for one in (lease, replace(lease, token="-")):
        assert world.settle(one).status == "lost"
        with pytest.raises(FencedError):
            world.reserve(one, 1)
    assert world.state_of("notify") == "owed"


def test_a_lost_holder_settles_nothing_once_a_pause_took_its_effect_back(world: World) -> None:
    world.at("asking")
    lease = world.claim("notify")
    world.flag("pause")
    world.later(LEASE_MS)
    world.poll()
    world.later(GRACE_MS)
    world.poll()

    assert world.state_of("notify") == "owed"
    assert world.settle(lease).status == "lost"
