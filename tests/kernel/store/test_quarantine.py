"""Work that nobody got done waits for a person, and is never dropped."""

from __future__ import annotations

from dataclasses import replace

import pytest

from interlock.kernel.errors import FencedError, OpIdReusedError, StaleDecisionError
from interlock.kernel.record import RecordId, partition_of
from interlock.kernel.store.commands import Call, Warrant
from interlock.kernel.store.leases import Lease, Order, Refused
from interlock.kernel.store.scripts import read
from tests.kernel.store.kernel_at_a_fixed_time import ACTOR, LIMITS, World, token
from tests.kernel.store.tables import LEASE_MS, NOTIFY


def quarantined(world: World) -> Lease:
    """Lose every holder of an effect without a way out; return the last one's lease."""
    world.at("polishing")
    world.let_losses_count("polish")
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
    index = world.keys.timers(world.partition())
    assert read(world.client, "ZSCORE", index, "r:quarantine") is None


def test_nobody_gets_a_quarantined_effect(world: World) -> None:
    lease = quarantined(world)

    assert world.refused(lease.key, "c") == "quarantined"
    assert world.score(lease.key) is None
    assert world.waits()


def test_a_list_says_that_a_person_is_asked_about_it(world: World) -> None:
    quarantined(world)
    world.create("other")

    rows = world.listings.rows_of([RecordId("r"), RecordId("other")])

    assert {one: row.waits_for_person for one, row in rows.items()} == {"r": True, "other": False}


def test_the_mark_of_a_missing_holder_is_no_token(world: World) -> None:
    world.at("asking")
    for nonce in ("a", "b"):
        lease = world.claim("notify", nonce)
        world.leases.release(lease, counted=True)
    world.later(LIMITS.poll_ms * 8)
    world.poll()
    nobody = replace(lease, token="-")

    assert (world.state_of("notify"), world.entry("notify").token) == ("quarantined", "")
    assert world.renew(nobody) is Order.LOST
    assert world.settle(nobody).status == "lost"
    assert world.leases.release(nobody, counted=False) == "lost"
    with pytest.raises(FencedError):
        world.reserve(nobody, 1)
    with pytest.raises(FencedError):
        world.leases.adopt(lease.key, NOTIFY, "-", nonce="z", holder="z")
    with pytest.raises(FencedError):
        world.fire("r", "polish", warrant=token(nobody))
    assert world.state_of("notify") == "quarantined"


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

    assert (world.state_of("polish"), world.entry("polish").no_restart) == ("leased", True)
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
    assert world.timer("quarantine") is not None
    world.fire("r", "poke", warrant=token(lease))

    assert world.state_of("polish") == "leased"
    assert world.score(lease.key) == world.entry("polish").lease_until
    released(world)


def test_leaving_the_state_ends_it(world: World) -> None:
    quarantined(world)
    world.fire("r", "cancel")

    assert world.state_of("polish") == "gone"
    released(world)


def test_retry_gives_fresh_attempts_and_the_old_token_stays_good(world: World) -> None:
    lease = quarantined(world)
    with pytest.raises(StaleDecisionError, match=world.record().retry_proposal):
        world.lifecycle.flag("retry", "r", Call(ACTOR, "old"), proposal="r:retry:1.7.0")
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


def test_a_retry_gives_all_attempts_to_what_was_given_up_at_its_first(world: World) -> None:
    world.at("polishing")
    world.leases.release(world.claim("polish"), counted=True, is_last=True)
    world.later(2_000)
    world.poll()
    assert world.state_of("polish") == "quarantined"
    world.flag("retry")
    assert (world.entry("polish").attempts, world.entry("polish").attempts_max) == (0, 2)

    world.claim("polish", "lost")
    world.later(LEASE_MS * 4)

    assert world.poll_status(world.key("polish")) == "publish"
    assert world.entry("polish").attempts_max == 3


def test_a_retry_takes_back_the_attempts_that_losses_have_added(world: World) -> None:
    quarantined(world)
    assert world.entry("polish").attempts_max > 2
    world.flag("retry")

    assert (world.entry("polish").attempts, world.entry("polish").attempts_max) == (0, 2)


def test_a_retry_by_who_does_not_know_the_effect_keeps_its_number(world: World) -> None:
    quarantined(world)
    before = world.entry("polish").attempts_max
    record = world.record()
    answer = world.lifecycle.store.flag("retry", record, op_id="one", cause=ACTOR)

    assert answer.status == "retried"
    assert (world.entry("polish").attempts, world.entry("polish").attempts_max) == (0, before)


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
    assert world.timer("expiry") is not None
    world.fire("r", "approve")

    assert world.waits()
    assert [timer.name for timer in world.record().timers] == ["quarantine"]
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

    assert world.fails("fail", Warrant.exhausted(lease.suffix, lease.attempt)) == "FencedError"
    assert world.fails("fail", Warrant.lapsed(lease.suffix, lease.token)) == "FencedError"


def test_a_holder_that_gives_back_after_a_retry_leaves_no_more_attempts_than_there_are(
    world: World,
) -> None:
    lease = quarantined(world)
    world.flag("retry")

    assert world.leases.release(lease, counted=False) == "owed"
    assert world.claim("polish", "again").attempt == 1


def test_settling_a_quarantined_effect_ends_the_quarantine(world: World) -> None:
    world.at("asking")
    world.let_losses_count("notify")
    lease = world.claim("notify", "a")
    world.leases.release(lease, counted=True)
    lease = world.claim("notify", "b")
    world.later(LEASE_MS)
    world.poll()
    world.later(LIMITS.poll_ms * 8)
    world.poll()
    assert world.state_of("notify") == "quarantined"

    assert world.settle(lease).status == "settled"
    assert world.state_of("notify") == "gone"
    assert world.timer("quarantine") is None
    assert world.waits(), "its state asks a person"


def test_a_holder_that_only_reports_its_progress_ends_the_quarantine(world: World) -> None:
    of = "g/a"
    world.create(of, machine="node")
    for trigger in ("activate", "begin"):
        world.fire(of, trigger)
    world.let_losses_count("run", of)
    for nonce in ("a", "b"):
        lease = world.claim("run", nonce, of)
        for _ in range(2):
            world.later(LEASE_MS)
            world.poll(of)
    assert world.state_of("run", of) == "quarantined"

    world.fire(of, "poke", {"value": 1}, warrant=token(lease))
    assert world.state_of("run", of) == "leased"
    assert not world.waits(of)


def test_after_a_retry_an_effect_is_polled_as_often_as_a_new_one(world: World) -> None:
    world.at("asking")
    for nonce in ("a", "b"):
        lease = world.claim("notify", nonce)
        world.leases.release(lease, counted=True, delay_ms=LEASE_MS)
        for _ in range(6):
            world.make_due(lease.key)
            assert world.poll_status(lease.key) == "later"
        world.later(LEASE_MS)
    world.poll()
    assert world.state_of("notify") == "quarantined"
    world.flag("retry")

    assert world.poll_status(lease.key) == "publish"
    score = world.score(lease.key)
    assert score is not None
    assert score <= world.now + 4 * LIMITS.poll_ms


def obstructed(world: World) -> Lease:
    """Give an effect back for a later attempt, because a person is in its way."""
    world.at("polishing")
    lease = world.claim("polish")
    assert world.leases.release(lease, delay_ms=LEASE_MS, counted=True, asks=True) == "owed"
    assert world.entry("polish").asks_person
    return lease


def test_a_person_in_the_way_of_an_effect_is_asked_until_it_is_tried_again(world: World) -> None:
    lease = obstructed(world)
    assert world.indexes.waits([partition_of("r")], 1)[1] == [("r", world.now)]
    assert world.refused(lease.key, "b") == "early"
    world.later(LEASE_MS)

    assert isinstance(world.ask(lease.key, "b"), Lease)
    assert not world.waits()


def test_an_internal_loop_still_asks_the_person_in_the_way(world: World) -> None:
    obstructed(world)
    world.fire("r", "poke")
    assert world.waits()
    world.fire("r", "cancel")

    assert not world.waits()


def test_a_person_in_the_way_of_a_transitions_effect_is_asked_after_the_state_is_left(
    world: World,
) -> None:
    world.at("asking")
    world.leases.release(world.claim("notify"), delay_ms=LEASE_MS, counted=True, asks=True)
    world.fire("r", "approve")

    assert world.waits()


def test_a_person_in_the_way_of_two_effects_is_asked_until_both_are_tried_again(
    world: World,
) -> None:
    world.at("asking")
    notify = world.claim("notify")
    world.leases.release(notify, delay_ms=LEASE_MS, counted=True, asks=True)
    world.fire("r", "polish")
    world.leases.release(world.claim("polish"), delay_ms=LEASE_MS, counted=True, asks=True)
    world.later(LEASE_MS)
    world.claim("polish", "b")
    assert world.waits()
    assert isinstance(world.ask(notify.key, "b"), Lease)

    assert not world.waits()


def test_a_quarantine_goes_on_when_a_person_has_made_way_for_another_effect(world: World) -> None:
    world.at("asking")
    world.spend("notify")
    world.fire("r", "polish")
    world.leases.release(world.claim("polish"), delay_ms=LEASE_MS, counted=True, asks=True)
    world.later(LEASE_MS)
    world.claim("polish", "b")

    assert world.waits()
    assert world.timer("quarantine") is not None


def test_a_person_in_the_way_is_not_reminded_of_a_quarantine_that_has_ended(
    world: World,
) -> None:
    world.at("asking")
    world.spend("notify")
    world.flag("retry")
    world.leases.release(world.claim("notify"), delay_ms=LEASE_MS, counted=True, asks=True)
    world.fire("r", "approve")

    assert world.waits()
    assert world.timer("quarantine") is None


def answer_card(world: World, proposal: str) -> str:
    """Let the effects of the record try again, as an answer to the card with this proposal."""
    op_id = f"answer:{world.now}:{proposal}"
    return world.lifecycle.flag("retry", "r", Call(ACTOR, op_id), proposal=proposal).status


def test_a_quarantine_is_answered_by_the_proposal_of_its_card(world: World) -> None:
    quarantined(world)

    assert answer_card(world, world.record().retry_proposal) == "retried"


def test_an_answer_about_an_older_obstacle_is_refused(world: World) -> None:
    older = obstructed(world)
    seen = world.record().retry_proposal
    world.later(LEASE_MS)
    lease = world.ask(older.key, "b")
    assert isinstance(lease, Lease)
    world.leases.release(lease, delay_ms=LEASE_MS, counted=True, asks=True)
    current = world.record().retry_proposal

    with pytest.raises(StaleDecisionError, match=current):
        answer_card(world, seen)
    assert world.waits()
    assert answer_card(world, current) == "retried"
    assert not world.waits()


def test_an_answer_is_refused_where_no_effect_asks_a_person(world: World) -> None:
    world.at("polishing")
    world.leases.release(world.claim("polish"), delay_ms=LEASE_MS, counted=True)
    (given_back_at,) = [entry.kill_by for entry in world.record().entries if entry.kill_by]

    for proposal in ("r:retry:0.0", "r:retry:0.0.0", f"r:retry:0.0.{given_back_at}", "r:retry:"):
        with pytest.raises(StaleDecisionError, match="nothing waits for a person"):
            answer_card(world, proposal)


def test_a_card_is_answered_after_the_delay_too(world: World) -> None:
    obstructed(world)
    world.later(LEASE_MS)

    assert answer_card(world, world.record().retry_proposal) == "retried"
    assert not world.waits()


def test_a_paused_record_asks_no_person_who_is_in_the_way(world: World) -> None:
    obstructed(world)
    seen = world.record().retry_proposal
    world.flag("pause")

    assert not world.record().retry_proposal
    with pytest.raises(StaleDecisionError, match="nothing waits for a person"):
        answer_card(world, seen)
    world.flag("resume")
    assert world.record().retry_proposal == seen
    assert answer_card(world, seen) == "retried"


def test_a_retry_makes_an_effect_due_that_waits_for_its_next_attempt(world: World) -> None:
    world.at("polishing")
    lease = world.claim("polish")
    world.leases.release(lease, delay_ms=LEASE_MS, counted=True)
    world.flag("retry")

    assert world.score(lease.key) == world.now
    assert isinstance(world.ask(lease.key, "b"), Lease)


def test_a_retry_tries_at_once_what_a_person_was_in_the_way_of(world: World) -> None:
    lease = obstructed(world)
    answer = world.flag("retry")

    assert [message.key for message in answer.owed] == [lease.key]
    assert world.score(lease.key) == world.now
    assert not world.waits()
    fresh = world.ask(lease.key, "b")
    assert isinstance(fresh, Lease)
    assert fresh.attempt == 1


def test_a_retry_leaves_a_holder_alone_even_where_the_clock_was_set_back(world: World) -> None:
    world.at("polishing")
    world.leases.release(world.claim("polish"), delay_ms=LEASE_MS, counted=True)
    world.later(LEASE_MS)
    world.claim("polish", "b")
    world.later(-LEASE_MS)

    assert world.flag("retry").status == "nothing"
    assert world.state_of("polish") == "leased"


def test_a_retry_starts_no_effect_of_a_paused_record(world: World) -> None:
    lease = obstructed(world)
    world.flag("pause")

    assert world.flag("retry").status == "nothing"
    assert world.score(lease.key) is None
