"""What a commit does to effects: its own, those of the state it leaves, those it carries."""

from __future__ import annotations

import pytest

from interlock.kernel.errors import FencedError, UnknownRecordError
from interlock.kernel.store.commands import Warrant
from interlock.kernel.store.leases import Lease, Order
from tests.kernel.store.kernel_at_a_fixed_time import World, token
from tests.kernel.store.tables import GRACE_MS, LEASE_MS


def test_an_outcome_ends_its_own_effect(world: World) -> None:
    world.at("working")
    lease = world.claim()
    fired = world.fire(lease.record, "done", {"value": 7}, warrant=token(lease))

    assert fired.version == 3
    assert world.state_of() == "gone"
    assert world.score(lease.key) is None
    assert world.record().data["value"] == 7


def test_a_repeated_outcome_is_answered_although_its_effect_is_gone(world: World) -> None:
    world.at("working")
    lease = world.claim()
    first = world.fire(lease.record, "done", warrant=token(lease), op="same")
    again = world.fire(lease.record, "done", warrant=token(lease), op="same")

    assert (again.version, again.replayed) == (first.version, True)


def test_an_outcome_of_a_lapsed_effect_counts_until_somebody_else_claims(world: World) -> None:
    world.at("working")
    lease = world.claim()
    world.later(LEASE_MS)
    world.poll()

    assert world.fire(lease.record, "done", warrant=token(lease)).version == 3


def test_an_outcome_of_a_released_or_left_effect_is_fenced(world: World) -> None:
    world.at("working")
    lease = world.claim()
    world.leases.release(lease, counted=False)
    assert world.fails("done", token(lease)) == "FencedError"

    again = world.claim(nonce="b")
    world.fire("r", "again")
    assert world.fails("done", token(again)) == "FencedError"
    assert world.record().state == "working"


def test_a_late_outcome_is_fenced_even_where_the_table_would_refuse_it(world: World) -> None:
    world.at("working")
    lease = world.claim()
    world.fire("r", "cancel")

    with pytest.raises(FencedError):
        world.fire("r", "done", warrant=token(lease))


def test_leaving_drops_what_nobody_began_and_drains_what_runs(world: World) -> None:
    world.at("working")
    owed = world.key()
    world.fire("r", "again")
    assert world.score(owed) is None
    assert world.state_of() == "owed"

    lease = world.claim()
    world.later(2_000)
    world.fire("r", "cancel")
    entry = world.entry()
    assert (entry.state, entry.kill_by) == ("draining", lease.record.since_ms + LEASE_MS + GRACE_MS)
    assert world.score(lease.key) == entry.kill_by


def test_leaving_drains_what_lapsed(world: World) -> None:
    world.at("working")
    lease = world.claim()
    world.later(LEASE_MS)
    world.poll()
    world.fire("r", "cancel")

    assert world.state_of() == "draining"
    assert world.renew(lease) is Order.STOP
    assert world.settle(lease).status == "settled"
    assert world.state_of() == "gone"


def test_carrying_keeps_the_effect_and_its_token(world: World) -> None:
    world.at("working")
    lease = world.claim()
    world.fire(lease.record, "go_on", warrant=token(lease))
    entry = world.entry()

    assert (entry.state, entry.token, entry.no_restart) == ("leased", lease.token, True)
    assert world.key() == lease.key
    assert world.renew(lease) is Order.GO
    assert world.fire("r", "done", warrant=token(lease)).version == 4


def test_anybody_may_carry_and_what_never_began_may_still_start(world: World) -> None:
    world.at("working")
    world.fire("r", "go_on")

    assert (world.state_of(), world.entry().no_restart) == ("owed", False)
    assert isinstance(world.ask(world.key()), Lease)


def test_what_never_began_before_it_was_carried_exhausts_where_it_is_now(world: World) -> None:
    world.at("working")
    world.fire("r", "go_on")
    world.spend("work")

    assert world.record().state == "carried"
    assert world.state_of() == "quarantined"
    assert world.waits()


def test_carrying_what_was_given_back_makes_it_a_crash(world: World) -> None:
    world.at("working")
    lease = world.claim()
    world.leases.release(lease, counted=False)
    world.fire("r", "go_on")

    assert world.state_of() == "lapsed"
    assert world.score(lease.key) == world.now
    polled = world.poll()[lease.key]
    assert polled.status == "crash"
    warrant = Warrant.lapsed(lease.suffix, polled.detail)
    assert world.fire("r", "fail", warrant=warrant).version == 4


def test_carrying_a_lapsed_effect_leaves_it_lapsed(world: World) -> None:
    world.at("working")
    world.claim()
    world.later(LEASE_MS)
    world.poll()
    world.fire("r", "go_on")

    assert (world.state_of(), world.entry().no_restart) == ("lapsed", True)


def test_an_internal_loop_keeps_effect_timers_token_and_proposal(world: World) -> None:
    world.at("working")
    lease = world.claim()
    before, timer = world.record(), world.timer("stall")
    world.later(1_000)
    world.fire("r", "poke", {"value": 1})
    after = world.record()

    assert (after.version, after.entered) == (3, before.entered)
    assert after.proposal == before.proposal
    assert world.timer("stall") == timer
    assert world.entry().token == lease.token
    assert world.fire("r", "done", warrant=token(lease)).version == 4


def test_an_internal_loop_leaves_a_lapsed_effect_lapsed(world: World) -> None:
    world.at("working")
    lease = world.claim()
    world.later(LEASE_MS)
    world.poll()
    world.fire("r", "poke", {"value": 1}, warrant=token(lease))

    assert world.state_of() == "lapsed"


def test_an_external_loop_leaves_and_enters(world: World) -> None:
    world.at("working")
    lease = world.claim()
    before = world.record()
    world.later(1_000)
    world.fire("r", "again")
    after = world.record()

    assert after.proposal != before.proposal
    assert sorted(entry.state for entry in after.entries) == ["draining", "owed"]
    assert after.timers[0].set_at_version == 3
    assert after.timers[0].due_at == before.timers[0].due_at + 1_000
    assert world.renew(lease) is Order.STOP


def test_carrying_ends_the_old_timers_and_starts_the_new(world: World) -> None:
    world.at("working")
    before = world.timer("stall")
    world.later(1_000)
    world.fire("r", "go_on")
    after = world.timer("stall")

    assert before is not None
    assert after is not None
    assert (after.set_at_version, after.due_at) == (3, before.due_at + 1_000)


def test_a_transitions_effect_is_owed_whatever_happens_next(world: World) -> None:
    world.at("asking")
    lease = world.claim("notify")
    world.fire("r", "approve")

    assert world.record().state == "done"
    states = sorted(entry.state for entry in world.record().entries)
    assert states == ["leased", "owed"]
    assert world.settle(lease).status == "settled"


def test_a_live_state_effect_ends_by_an_outcome_only(world: World) -> None:
    world.at("working")
    lease = world.claim()

    assert world.settle(lease).status == "refused"
    assert world.state_of() == "leased"
    assert world.fire("r", "done", warrant=token(lease)).version == 3
    assert world.settle(lease).status == "lost"


def test_settling_twice_or_with_an_old_token_changes_nothing(world: World) -> None:
    world.at("asking")
    first = world.claim("notify", "a")
    world.later(LEASE_MS)
    world.poll()
    second = world.claim("notify", "b")

    assert world.settle(first).status == "lost"
    assert world.state_of("notify") == "leased"
    assert world.settle(second).status == "settled"
    assert world.settle(second).status == "lost"


def test_a_terminal_record_changes_no_more(world: World) -> None:
    world.at("failed")
    before = world.dump()

    for trigger in ("begin", "done", "cancel", "poke", "children_done"):
        assert world.fails(trigger) == "IllegalTransitionError"
    assert world.dump() == before
    assert world.record().timers == ()


def test_an_unknown_record_is_said_to_be_unknown(world: World) -> None:
    with pytest.raises(UnknownRecordError):
        world.fire("nobody", "begin")


def test_an_effect_that_drains_already_is_not_hurried_by_the_next_transition(world: World) -> None:
    world.at("working")
    lease = world.claim()
    world.fire("r", "again")
    (draining,) = (entry for entry in world.record().entries if entry.state == "draining")
    world.later(1_000)
    world.fire("r", "cancel")

    assert world.record().entries == (draining,)
    assert world.renew(lease) is Order.STOP


def test_an_effect_that_drains_is_not_carried_along(world: World) -> None:
    world.at("working")
    world.claim()
    world.fire("r", "again")
    world.fire("r", "go_on")

    assert [entry.no_restart for entry in world.record().entries if entry.state == "draining"] == [
        False
    ]


def test_a_transition_leaves_what_earlier_ones_owe_to_its_time(world: World) -> None:
    world.at("asking")
    key = world.key("notify")
    before = world.score(key)
    world.later(10)
    world.fire("r", "revise")

    assert world.score(key) == before


def test_an_end_leaves_what_is_owed_to_its_time(world: World) -> None:
    world.at("asking")
    key = world.key("notify")
    before = world.score(key)
    world.later(10)
    world.fire("r", "approve")

    assert world.score(key) == before


def test_what_has_ended_is_neither_given_back_nor_reserved_for(world: World) -> None:
    world.at("working")
    lease = world.claim()
    world.fire("r", "done", warrant=token(lease))

    assert world.leases.release(lease, counted=True) == "lost"
    with pytest.raises(FencedError):
        world.reserve(lease, 1)


def test_a_carried_effect_that_was_given_back_drains_from_then_on_for_its_grace(
    world: World,
) -> None:
    world.at("working")
    lease = world.claim()
    world.fire("r", "go_on")
    world.later(1_000)
    world.leases.release(lease, counted=False)
    released_ms = world.now
    world.later(1_000)
    world.fire("r", "cancel")

    assert world.state_of() == "draining"
    assert world.entry().kill_by == released_ms + GRACE_MS
