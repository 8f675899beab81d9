"""Work that nobody got done waits for a person, and is never dropped."""

from __future__ import annotations

import pytest

from interlock.kernel.errors import OpIdReusedError, StaleDecisionError
from interlock.kernel.store.commands import Warrant
from interlock.kernel.store.leases import Lease, Order, Refused
from tests.kernel.store.kernel_at_a_fixed_time import ACTOR, LIMITS, World, token
from tests.kernel.store.tables import LEASE_MS


def quarantined(world: World) -> Lease:
    """Lose every holder of an effect without a way out; return the last one's lease."""
    world.at("polishing")
    for nonce in ("a", "b"):
        lease = world.claim("polish", nonce)
        world.later(LEASE_MS)
        world.poll()
        world.later(LIMITS.poll_ms * 8)
        world.poll()
    assert world.state_of("polish") == "quarantined"
    return lease


def released(world: World) -> None:
    """Assert that nobody is asked about the record any more."""
    assert not world.waits()
    assert world.timer("quarantine") is None
    assert "quarantine" not in world.poll_timers()


def test_nobody_gets_a_quarantined_effect(world: World) -> None:
    lease = quarantined(world)

    assert world.refused(lease.key, "c") == "quarantined"
    assert world.score(lease.key) is None
    assert world.waits()


def test_a_late_outcome_ends_the_quarantine(world: World) -> None:
    lease = quarantined(world)
    world.fire("r", "done", warrant=token(lease))

    assert world.record().state == "done"
    assert world.state_of("polish") == "gone"
    released(world)


def test_a_late_renewal_ends_the_quarantine(world: World) -> None:
    lease = quarantined(world)

    assert world.renew(lease) is Order.GO
    assert world.state_of("polish") == "leased"
    assert world.score(lease.key) == world.now + LEASE_MS
    released(world)


def test_a_repeated_claim_of_the_last_holder_ends_the_quarantine(world: World) -> None:
    lease = quarantined(world)
    again = world.ask(lease.key, "b")

    assert isinstance(again, Lease)
    assert again.token == lease.token
    released(world)


def test_a_late_release_ends_the_quarantine(world: World) -> None:
    lease = quarantined(world)

    assert world.leases.release(lease, counted=False) == "owed"
    released(world)
    world.later(LIMITS.poll_ms)
    assert world.poll_status(lease.key) == "publish"


def test_a_late_carry_by_its_own_holder_makes_it_live(world: World) -> None:
    lease = quarantined(world)
    world.fire("r", "go_on", warrant=token(lease))

    assert (world.state_of("polish"), world.entry("polish").carried) == ("leased", True)
    assert world.score(lease.key) is not None
    released(world)
    assert world.poll_status(lease.key) == "crash"


def test_a_carry_by_somebody_else_leaves_it_waiting_for_a_person(world: World) -> None:
    lease = quarantined(world)
    world.fire("r", "go_on")

    assert world.state_of("polish") == "quarantined"
    assert world.waits()
    assert world.timer("quarantine") is not None
    assert world.renew(lease) is Order.GO
    released(world)


def test_an_internal_loop_leaves_it_and_its_own_holder_revives_it(world: World) -> None:
    lease = quarantined(world)
    world.fire("r", "poke")
    assert world.state_of("polish") == "quarantined"
    assert world.waits()
    world.fire("r", "poke", warrant=token(lease))

    assert world.state_of("polish") == "leased"
    released(world)


def test_leaving_the_state_ends_it(world: World) -> None:
    quarantined(world)
    world.fire("r", "cancel")

    assert world.state_of("polish") == "gone"
    released(world)


def test_retry_gives_fresh_attempts_and_the_old_token_stays_good(world: World) -> None:
    lease = quarantined(world)
    with pytest.raises(StaleDecisionError, match=world.record().retry_proposal):
        world.lifecycle.flag("retry", "r", op_id="old", cause=ACTOR, proposal="r:retry:1.7")
    answer = world.flag("retry", op="again")

    assert [message.key for message in answer.owed] == [lease.key]
    assert world.state_of("polish") == "lapsed"
    assert world.entry("polish").attempts == 0
    assert world.score(lease.key) == world.now
    assert world.notes()[-1].kind == "retry"
    assert world.renew(lease) is Order.GO
    released(world)
    assert world.flag("retry", op="again").status == "replayed"
    assert world.flag("retry").status == "nothing"
    with pytest.raises(OpIdReusedError):
        world.flag("pause", op="again")


def test_a_retry_begins_at_once_even_where_the_clock_was_set_back(world: World) -> None:
    world.at("asking")
    for nonce in ("a", "b"):
        lease = world.claim("notify", nonce)
        world.leases.release(lease, delay_ms=LEASE_MS, counted=True)
        world.later(LEASE_MS)
    world.poll()
    assert world.state_of("notify") == "quarantined"
    world.later(-LEASE_MS)
    world.flag("retry")

    assert isinstance(world.ask(lease.key, "c"), Lease)


def test_after_a_retry_a_claim_fences_the_old_token(world: World) -> None:
    lease = quarantined(world)
    world.flag("retry")
    fresh = world.ask(lease.key, "c")

    assert isinstance(fresh, Lease)
    assert fresh.attempt == 1
    assert world.fails("done", token(lease)) == "FencedError"


def test_a_transitions_effect_stays_quarantined_when_the_state_is_left(world: World) -> None:
    world.at("asking")
    world.spend("notify")
    key = world.key("notify")
    world.fire("r", "approve")

    assert world.waits()
    assert world.timer("quarantine") is not None
    assert isinstance(world.ask(key), Refused)
    world.flag("retry")
    assert not world.waits()
    assert isinstance(world.ask(key), Lease)


def test_a_person_is_reminded_of_a_quarantine_even_after_the_end(world: World) -> None:
    world.at("asking")
    world.spend("notify")
    world.fire("r", "approve")
    seen = []
    for _ in range(3):
        timer = world.timer("quarantine")
        assert timer is not None
        world.later(timer.due_at - world.now)
        polled = world.poll_timers()["quarantine"]
        assert polled.status == "due"
        seen.append(polled.fired)
        op = f"due:{polled.due_at}"
        world.lifecycle.remind(world.record(), "quarantine", world.due(polled), polled.fired, op)

    assert seen == [0, 1, 2]
    assert [note.kind for note in world.notes()].count("reminder") == 3


def test_the_reminder_of_a_quarantine_goes_on_when_the_end_lifts_a_pause(world: World) -> None:
    world.at("asking")
    world.spend("notify")
    world.flag("pause")
    world.fire("r", "approve")
    world.later(LIMITS.remind_ms)

    assert world.poll_timers()["quarantine"].status == "due"


def test_a_record_that_waits_for_a_person_anyway_still_does_after_a_retry(world: World) -> None:
    world.at("asking")
    world.spend("notify")
    world.flag("retry")

    assert world.waits()
    assert world.timer("quarantine") is None


def test_used_up_attempts_of_a_quarantine_entitle_to_nothing(world: World) -> None:
    lease = quarantined(world)

    assert world.fails("fail", Warrant.exhausted(lease.suffix, 2)) == "FencedError"
    assert world.fails("fail", Warrant.lapsed(lease.suffix, lease.token)) == "FencedError"
