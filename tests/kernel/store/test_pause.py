"""Pause and resume: a flag that keeps everything and starts nothing."""

from __future__ import annotations

import pytest

from interlock.kernel.errors import OpIdReusedError
from interlock.kernel.store.leases import Order
from tests.kernel.store.kernel_at_a_fixed_time import ACTOR, World, token
from tests.kernel.store.tables import EXPIRY_MS, LEASE_MS, REMIND_MS


def test_pausing_takes_what_is_owed_off_the_index_and_resuming_brings_it_back(
    world: World,
) -> None:
    world.at("working")
    key = world.key()
    world.flag("pause")
    assert world.score(key) is None
    assert world.record().version == 2
    answer = world.flag("resume")

    assert [message.key for message in answer.owed] == [key]
    assert world.score(key) == world.now
    assert not world.record().paused


def test_a_holder_goes_on_to_its_outcome_under_pause_and_what_follows_waits(world: World) -> None:
    world.at("working")
    lease = world.claim()
    world.flag("pause")
    assert world.renew(lease) is Order.PAUSE
    assert world.score(lease.key) is not None
    fired = world.fire(lease.record, "done", warrant=token(lease))

    assert world.record().state == "asking"
    assert fired.owed == ()
    assert world.score(world.key("notify")) is None
    assert world.refused(world.key("notify")) == "paused"


def test_timers_keep_their_remainder(world: World) -> None:
    world.at("asking")
    world.later(15_000)
    world.flag("pause")
    world.later(10 * EXPIRY_MS)
    assert world.poll_timers() == {}
    world.flag("resume")
    timer = world.timer("expiry")

    assert timer is not None
    assert timer.due_at == world.now + EXPIRY_MS - 15_000
    world.later(REMIND_MS - 15_000)
    assert world.poll_timers()["reminder"].status == "due"


def test_a_paused_timer_fires_nothing(world: World) -> None:
    world.at("asking")
    world.later(EXPIRY_MS)
    polled = world.poll_timers()["expiry"]
    world.flag("pause")

    assert world.fails("expire", world.due(polled)) == "FencedError"


def test_timers_of_a_state_entered_under_pause_start_with_their_whole_time(world: World) -> None:
    world.at("working")
    world.flag("pause")
    world.fire("r", "done")
    world.later(EXPIRY_MS * 2)
    assert world.poll_timers() == {}
    world.flag("resume")
    timer = world.timer("expiry")

    assert timer is not None
    assert timer.due_at == world.now + EXPIRY_MS


def test_a_terminal_commit_lifts_the_pause_and_what_is_still_owed_is_seen(world: World) -> None:
    world.at("asking")
    lease = world.claim("notify")
    world.leases.release(lease, counted=False)
    world.flag("pause")
    assert world.score(lease.key) is None
    world.fire("r", "approve")

    assert not world.record().paused
    assert world.score(lease.key) == world.now
    assert all(world.score(entry.key("r")) is not None for entry in world.record().entries)
    assert world.poll_status(lease.key) == "publish"


def test_pausing_twice_or_an_ended_record_says_so(world: World) -> None:
    world.at("working")

    assert world.flag("pause", op="one").status == "paused"
    assert world.flag("pause", op="one").status == "replayed"
    assert world.flag("pause").status == "already"
    with pytest.raises(OpIdReusedError):
        world.flag("resume", op="one")
    assert world.flag("resume").status == "resumed"
    assert world.flag("resume").status == "already"
    world.fire("r", "cancel")
    assert world.flag("pause").status == "ended"


def test_an_effect_carried_under_pause_may_still_crash(world: World) -> None:
    world.at("working")
    lease = world.claim()
    world.leases.release(lease, counted=False)
    world.flag("pause")
    world.fire("r", "go_on")

    assert world.poll_status(lease.key) == "crash"


def test_a_carried_effect_that_is_given_back_under_pause_is_polled(world: World) -> None:
    world.at("working")
    lease = world.claim()
    world.fire("r", "go_on")
    world.flag("pause")

    assert world.leases.release(lease, counted=False) == "lapsed"
    assert world.score(lease.key) == world.now


def test_a_transition_under_pause_makes_nothing_due(world: World) -> None:
    world.at("asking")
    key = world.key("notify")
    world.flag("pause")
    world.fire("r", "revise")

    assert world.score(key) is None


def test_a_transition_under_pause_leaves_the_reminder_of_a_quarantine_as_it_is(
    world: World,
) -> None:
    world.at("asking")
    world.spend("notify")
    world.flag("pause")
    before = world.timer("quarantine")
    world.fire("r", "revise")

    assert before is not None
    assert world.timer("quarantine") == before


def test_an_end_under_pause_leaves_a_lease_to_its_time(world: World) -> None:
    world.at("asking")
    lease = world.claim("notify")
    before = world.score(lease.key)
    world.flag("pause")
    world.fire("r", "approve")

    assert world.score(lease.key) == before


def test_what_is_owed_leaves_the_index_under_pause_even_where_the_clock_was_set_back(
    world: World,
) -> None:
    world.at("working")
    lease = world.claim()
    world.leases.release(lease, counted=False)
    world.flag("pause")
    world.later(-LEASE_MS)
    world.make_due(lease.key)
    world.poll()

    assert world.score(lease.key) is None


def test_a_pause_and_its_end_are_noted_with_who_asked_for_them(world: World) -> None:
    world.at("working")
    world.flag("pause")
    world.flag("resume")

    assert [(note.kind, note.detail["actor"]) for note in world.notes()] == [
        ("pause", "test"),
        ("resume", "test"),
    ]


def test_a_resumption_that_is_repeated_is_answered_as_such(world: World) -> None:
    world.at("working")
    world.flag("pause")

    assert world.flag("resume", op="one").status == "resumed"
    assert world.flag("resume", op="one").status == "replayed"


def test_resuming_leaves_a_lease_that_went_on_as_it_is(world: World) -> None:
    world.at("working")
    lease = world.claim()
    world.flag("pause")
    world.later(1_000)
    answer = world.flag("resume")

    assert answer.owed == ()
    assert world.score(lease.key) == world.now - 1_000 + LEASE_MS


@pytest.mark.parametrize("name", ["pause", "resume", "retry"])
def test_a_record_that_was_pruned_meanwhile_is_said_to_be_missing(world: World, name: str) -> None:
    record = world.at("working")
    world.client.delete(world.keys.record("r"))
    before = world.dump()
    answer = world.lifecycle.store.flag(name, record, op_id="one", cause=ACTOR)

    assert answer.status == "missing"
    assert world.dump() == before
