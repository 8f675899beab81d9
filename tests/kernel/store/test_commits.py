"""What entitles a commit: op-ids, warrants, versions, facts; and the timers it sets."""

from __future__ import annotations

import json

import pytest

from interlock.kernel.errors import (
    CallError,
    GuardRefusedError,
    InvalidPayloadError,
    OpIdReusedError,
    StaleDecisionError,
    UnknownTriggerError,
)
from interlock.kernel.store import scripts
from interlock.kernel.store.commands import Warrant
from interlock.kernel.store.listings import Filter
from tests.kernel.store.kernel_at_a_fixed_time import World, token
from tests.kernel.store.tables import EXPIRY_MS, LEASE_MS


def test_a_repeat_gets_the_first_outcome_and_changes_nothing(world: World) -> None:
    world.at("working")
    first = world.fire("r", "poke", {"value": 1}, op="same")
    before = world.dump()
    again = world.fire("r", "poke", {"value": 1}, op="same")

    assert (first.version, again.version) == (3, 3)
    assert (first.replayed, again.replayed) == (False, True)
    assert world.dump() == before


def test_a_repeat_with_the_record_in_hand_is_known_by_the_script(world: World) -> None:
    record = world.at("working")
    world.fire(record, "poke", {"value": 1}, op="same")
    again = world.fire(record, "poke", {"value": 1}, op="same")

    assert (again.version, again.replayed) == (3, True)
    assert world.record().version == 3


def test_a_repeat_after_somebody_elses_commit_is_still_the_first(world: World) -> None:
    record = world.at("working")
    world.fire(record, "poke", {"value": 1}, op="same")
    world.fire("r", "again")
    world.fire("r", "poke", {"value": 2})

    assert world.fire(record, "poke", {"value": 1}, op="same").version == 3
    assert world.fire("r", "poke", {"value": 1}, op="same").replayed
    assert world.record().data["value"] == 2


def test_an_op_id_is_for_one_call_only(world: World) -> None:
    record = world.at("working")
    world.fire("r", "poke", {"value": 1}, op="same")

    for target in (record, "r"):
        for trigger, payload in (("poke", {"value": 2}), ("again", {})):
            with pytest.raises(OpIdReusedError):
                world.fire(target, trigger, payload, op="same")
    assert world.record().version == 3


def test_what_was_refused_is_judged_anew(world: World) -> None:
    world.at("idle")
    assert world.fails("done", op="same") == "IllegalTransitionError"
    world.fire("r", "begin")

    assert world.fire("r", "done", op="same").version == 3


def test_op_ids_are_dropped_after_the_window_two_at_a_time(world: World) -> None:
    world.at("working")
    for number in range(5):
        world.fire("r", "poke", op=f"old-{number}")
    world.later(100_001)
    ops = world.keys.ops("r")
    sizes = []
    for number in range(4):
        world.fire("r", "poke", op=f"new-{number}")
        sizes.append(world.size(ops))

    assert sizes == [5, 4, 3, 4]
    assert world.size(world.keys.op_times("r")) == 4
    assert world.fire("r", "poke", op="new-3").replayed
    assert not world.fire("r", "poke", op="old-0").replayed


@pytest.mark.parametrize("op", ["x" * 513, "call:\ud800"])
def test_an_op_id_is_text_of_a_bounded_length(world: World, op: str) -> None:
    world.at("working")

    with pytest.raises(InvalidPayloadError):
        world.fire("r", "poke", op=op)


def test_a_trigger_that_is_no_text_is_unknown(world: World) -> None:
    world.at("working")

    with pytest.raises(UnknownTriggerError):
        world.fire("r", "poke\ud800")


def test_a_version_that_moved_is_decided_again_on_what_is_there_now(world: World) -> None:
    stale = world.at("working")
    world.fire("r", "poke", {"value": 1})
    fired = world.fire(stale, "poke", {"tally": {"x": 1}})

    assert fired.version == 4
    assert world.record().data == {"value": 1, "tally": {"x": 1}}


def test_a_decision_on_a_moved_version_commits_nothing_by_itself(world: World) -> None:
    stale = world.at("working")
    world.fire("r", "poke")
    machine = world.lifecycle.machine("life")
    decision = machine.decide(stale, "done", {})
    answer = world.commit(decision)

    assert answer.status == "conflict"
    assert world.record().state == "working"


def test_a_commit_puts_the_record_where_it_is_looked_for(world: World) -> None:
    machine, partition = world.lifecycle.machine("life"), world.partition()
    world.at("working")
    world.later(5)
    world.fire("r", "done")
    (row,) = world.listings.page(Filter([machine.name], [(machine.name, "asking")])).rows

    assert (row.since_ms, world.record().since_ms) == (world.now, world.now)
    assert not world.listings.page(Filter([machine.name], [(machine.name, "working")])).rows
    assert world.indexes.waits([partition], 10) == (1, [("r", world.now)])
    assert world.indexes.ended(partition, world.now, 10) == []
    world.fire("r", "approve")
    assert not world.waits()
    assert world.indexes.ended(partition, world.now, 10) == ["r"]


def test_a_decision_on_a_record_that_is_gone_commits_nothing(world: World) -> None:
    decision = world.lifecycle.machine("life").decide(world.at("working"), "done", {})
    scripts.read(world.client, "DEL", world.keys.record("r"))
    before = world.dump()

    assert world.commit(decision).status == "missing"
    assert world.dump() == before


def test_a_sweeps_timer_fires_once_and_only_when_it_is_due(world: World) -> None:
    world.at("asking")
    timer = world.timer("expiry")
    assert timer is not None
    warrant = Warrant.due("expiry", timer.due_at, timer.set_at_version)
    assert world.fails("expire", warrant) == "FencedError"
    world.later(EXPIRY_MS)

    polled = world.poll_timers()["expiry"]
    assert (polled.status, polled.due_at, polled.set_at_version) == (
        "due",
        timer.due_at,
        timer.set_at_version,
    )
    assert world.fire("r", "expire", warrant=warrant).version == 4


def test_a_timer_of_a_state_that_was_left_and_entered_again_is_another(world: World) -> None:
    world.at("asking")
    timer = world.timer("expiry")
    assert timer is not None
    world.fire("r", "revise")
    world.fire("r", "done")
    again = world.timer("expiry")
    assert again is not None
    assert (again.due_at, again.set_at_version) == (timer.due_at, 5)
    world.later(EXPIRY_MS)

    assert (
        world.fails("expire", Warrant.due("expiry", timer.due_at, timer.set_at_version))
        == "FencedError"
    )
    assert world.record().state == "asking"


def test_a_timer_that_was_set_anew_fires_no_more_at_its_old_time(world: World) -> None:
    world.at("working")
    timer = world.timer("stall")
    assert timer is not None
    world.note(kind="progress", timers=(("stall", 1_000, 0),))
    moved = world.timer("stall")
    assert moved is not None
    assert (moved.due_at, moved.set_at_version) == (world.now + 1_000, timer.set_at_version)
    world.note(kind="progress", timers=(("stall", 3_000, 0),))
    world.later(3_000)

    old = Warrant.due("stall", moved.due_at, moved.set_at_version)
    assert world.fails("fail", old) == "FencedError"
    latest = world.timer("stall")
    assert latest is not None
    fresh = Warrant.due("stall", latest.due_at, latest.set_at_version)
    assert world.fire("r", "fail", warrant=fresh).version == 3


def test_a_timer_that_does_not_run_is_not_set_anew(world: World) -> None:
    world.at("asking")
    world.note(kind="progress", timers=(("stall", 1_000, 0),))

    assert world.timer("stall") is None


def test_leaving_ends_every_timer(world: World) -> None:
    world.at("asking")
    world.fire("r", "approve")
    world.later(10 * EXPIRY_MS)

    assert world.poll_timers() == {}


def test_a_timer_that_is_due_and_not_answered_is_looked_at_less_and_less(world: World) -> None:
    world.at("idle")
    world.later(5_000)
    waits = []
    for _ in range(7):
        assert world.poll_timers()["kickoff"].status == "due"
        assert world.poll_timers() == {}
        waited = 0
        while not world.indexes.due_timers(world.partition(), 10):
            world.later(100)
            waited += 100
        waits.append(waited)

    assert waits[-1] > 4 * waits[0]


def test_a_decision_names_the_stay_that_it_saw(world: World) -> None:
    world.at("asking")
    seen = Warrant.person(world.record().entered)
    world.fire("r", "revise")
    world.fire("r", "done")

    with pytest.raises(StaleDecisionError) as refusal:
        world.fire("r", "approve", warrant=seen)
    assert refusal.value.current == "r:5"
    assert world.fire("r", "approve", warrant=Warrant.person(5)).version == 6


def test_a_stale_decision_is_refused_by_the_script_too(world: World) -> None:
    stale = world.at("asking")
    world.fire("r", "revise")
    world.fire("r", "done")

    with pytest.raises(StaleDecisionError):
        world.fire(stale, "approve", warrant=Warrant.person(stale.entered))
    assert world.record().state == "asking"


def test_the_script_compares_the_stay_itself(world: World) -> None:
    world.at("asking")
    world.fire("r", "revise")
    world.fire("r", "done")
    decision = world.lifecycle.machine("life").decide(world.record(), "approve", {})

    assert world.commit(decision, Warrant.person(3)).status == "fenced"
    assert world.commit(decision, Warrant.person(5)).status == "committed"


def test_a_lapsed_warrant_holds_only_while_marked_and_under_that_token(world: World) -> None:
    world.at("working")
    lease = world.claim(nonce="a")
    warrant = Warrant.lapsed(lease.suffix, lease.token)
    world.later(LEASE_MS)
    assert world.fails("fail", warrant) == "FencedError"
    world.poll()
    world.renew(lease)
    assert world.fails("fail", warrant) == "FencedError"
    world.later(LEASE_MS)
    world.poll()
    assert world.fails("fail", Warrant.lapsed(lease.suffix, "1-x")) == "FencedError"

    assert world.fire("r", "fail", warrant=warrant).version == 3


def test_an_exhausted_warrant_counts_the_attempts(world: World) -> None:
    world.at("working")
    lease = world.claim(nonce="a")
    world.leases.release(lease, counted=True)
    assert world.fails("fail", Warrant.exhausted(lease.suffix, 1)) == "FencedError"
    second = world.claim(nonce="b")
    assert world.fails("fail", Warrant.exhausted(lease.suffix, 2)) == "FencedError"
    world.leases.release(second, counted=True)
    assert world.fails("fail", Warrant.exhausted(lease.suffix, 3)) == "FencedError"

    assert world.fire("r", "fail", warrant=Warrant.exhausted(lease.suffix, 2)).version == 3


def test_facts_are_kept_in_the_event_and_compared_at_the_commit(world: World) -> None:
    world.split()
    world.create_child("r", "a")
    world.fire("r/a", "begin")
    stale = world.lifecycle.facts(world.record("r/a"), ["r"])
    machine = world.lifecycle.machine("life")
    facts = {"r": {"version": stale["r"]["version"], "state": "grouping", "policy": None}}
    decision = machine.decide(world.record("r/a"), "rely", {}, facts)
    world.fire("r", "cancel")

    assert world.commit(decision).status == "conflict"
    assert world.fire("r/a", "rely").version == 3
    assert world.events("r/a")[-1].facts["r"] == {"policy": None, "state": "failed", "version": 3}


def test_facts_of_ancestors_decide(world: World) -> None:
    world.at("grouping", payload={"policy": "strict"})
    world.create_child("r", "a")
    world.fire("r/a", "begin")

    with pytest.raises(GuardRefusedError):
        world.fire("r/a", "rely")


def test_create_is_told_apart_by_its_payload(world: World) -> None:
    first = world.create("r", {"value": 1})
    world.fire("r", "begin")
    before = world.dump()
    again = world.create("r", {"value": 1})

    assert (first.replayed, again.replayed, again.version) == (False, True, 2)
    with pytest.raises(CallError, match="id_taken"):
        world.create("r", {"value": 2})
    assert world.dump() == before


def test_a_record_with_a_slash_is_born_by_its_parent_alone(world: World) -> None:
    world.split()

    with pytest.raises(CallError, match="parent"):
        world.create("r/x")


@pytest.mark.parametrize(
    "payload",
    [
        {"value": float("nan")},
        {"value": "\ud800"},
        {"value": b"bytes"},
        {"value": object()},
        {"value": "x" * 300_000},
        json.loads("[" * 40 + "]" * 40) and {"value": json.loads("[" * 40 + "]" * 40)},
    ],
    ids=["nan", "lone surrogate", "bytes", "no JSON", "too big", "too deep"],
)
def test_a_payload_that_is_no_json_or_too_big_changes_nothing(
    world: World, payload: dict[str, object]
) -> None:
    world.at("working")
    before = world.dump()

    with pytest.raises(InvalidPayloadError):
        world.fire("r", "poke", payload)
    with pytest.raises(InvalidPayloadError):
        world.create("other", payload)
    assert world.dump() == before


def test_a_records_data_may_outgrow_a_payload(world: World) -> None:
    world.at("working", payload={"a": "x" * 200_000})
    world.fire("r", "poke", {"value": "y" * 200_000})

    assert len(world.record().data["value"]) == 200_000


def test_deltas_that_a_script_cannot_count_are_refused_before_anything_is_written(
    world: World,
) -> None:
    world.at("working")
    before = world.dump()

    with pytest.raises(InvalidPayloadError):
        world.fire("r", "poke", deltas={"spent": 10**30})
    with pytest.raises(InvalidPayloadError):
        world.note(deltas={"spent": 10**30}, op="x")
    assert world.dump() == before


def test_a_fused_commit_pushes_its_messages_itself(world: World) -> None:
    queue = f"{world.keys.prefix}:{{p00}}:queue"
    world.lifecycle.render = lambda message: (queue, message.key.encode())
    fired = world.at("working")

    assert fired.state == "working"
    assert world.list_of(queue) == [world.key().encode()]
    warrant = token(world.claim())
    assert world.fire("r", "done", warrant=warrant).owed == ()
    assert world.list_of(queue)[0] == world.key("notify").encode()


def test_a_warrant_of_an_unknown_kind_entitles_to_nothing(world: World) -> None:
    world.at("working")
    world.spend("work")
    suffix = world.entry().suffix

    assert world.fails("fail", Warrant("unknown", (suffix, "2"))) == "FencedError"
    assert world.fire("r", "fail", warrant=Warrant.exhausted(suffix, 2)).version == 3
