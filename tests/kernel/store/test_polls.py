"""What the orphan sweep finds: each state of an entry when its poll is due."""

from __future__ import annotations

from itertools import pairwise

from interlock.kernel.store import scripts
from interlock.kernel.store.commands import Warrant
from interlock.kernel.store.leases import Lease, Order
from tests.kernel.store.kernel_at_a_fixed_time import World, token
from tests.kernel.store.tables import GRACE_MS, LEASE_MS

POLL_MS = 1_000


def test_an_effect_that_nobody_claims_is_published_at_doubling_distances(world: World) -> None:
    world.at("working")
    key = world.key()
    distances = []
    for _ in range(5):
        score = world.score(key)
        assert score is not None
        distances.append(score - world.now)
        world.later(score - world.now)
        assert world.poll_status(key) == "publish"

    assert distances[0] == POLL_MS
    for before, after in pairwise(distances[1:]):
        assert 1.3 * before < after < 3.1 * before


def test_an_effect_whose_delay_is_not_over_is_not_published(world: World) -> None:
    world.at("working")
    lease = world.claim()
    world.leases.release(lease, delay_ms=LEASE_MS, counted=True)
    world.make_due(lease.key)

    assert world.poll_status(lease.key) == "later"
    assert world.score(lease.key) == world.now + LEASE_MS


def test_a_look_that_another_sweep_took_is_not_taken_twice(world: World) -> None:
    world.at("working")
    key = world.key()
    world.later(POLL_MS)
    partition = 0
    for partition in range(64):
        if world.indexes.due_effects(partition, 10):
            break
    first = world.indexes.poll_effects(partition, [key], gate_open=True)
    second = world.indexes.poll_effects(partition, [key], gate_open=True)

    assert [first[0].status, second[0].status] == ["publish", "taken"]
    scripts.read(world.client, "DEL", world.keys.effects(partition))
    (third,) = world.indexes.poll_effects(partition, [key], gate_open=True)
    assert third.status == "taken"


def test_a_live_lease_is_looked_at_again_when_it_ends(world: World) -> None:
    world.at("working")
    lease = world.claim()
    world.make_due(lease.key)

    assert world.poll_status(lease.key) == "later"
    assert world.score(lease.key) == world.now + LEASE_MS
    assert world.state_of() == "leased"


def test_a_lease_that_is_over_is_marked_lapsed_noted_and_published(world: World) -> None:
    world.at("working")
    lease = world.claim()
    world.later(LEASE_MS)

    assert world.poll_status(lease.key) == "publish"
    assert world.state_of() == "lapsed"
    assert world.notes()[-1].kind == "lapse"
    assert world.notes()[-1].detail["token"] == lease.token


def test_nothing_is_marked_lapsed_while_the_gate_is_closed(world: World) -> None:
    world.at("working")
    lease = world.claim()
    world.later(LEASE_MS)

    assert world.poll_status(lease.key, gate_open=False) == "later"
    assert world.state_of() == "leased"
    assert world.renew(lease) is Order.GO


def test_used_up_attempts_of_a_state_with_a_way_out_are_reported(world: World) -> None:
    world.at("working")
    for nonce in ("a", "b"):
        lease = world.claim(nonce=nonce)
        world.leases.release(lease, counted=True)
    world.later(POLL_MS)
    polled = world.poll()[lease.key]

    assert (polled.status, polled.detail) == ("exhausted", "2")
    assert world.state_of() == "owed"
    warrant = Warrant.exhausted(lease.suffix, 2)
    assert world.fire("r", "fail", warrant=warrant).version == 3


def test_used_up_attempts_without_a_way_out_are_quarantined(world: World) -> None:
    world.at("polishing")
    world.spend("polish")

    assert world.state_of("polish") == "quarantined"
    assert world.score(world.key("polish")) is None
    assert world.waits()
    timer = world.timer("quarantine")
    assert timer is not None
    assert timer.due_at == world.now + 50_000
    assert [note.kind for note in world.notes()][-1] == "quarantine"


def test_a_draining_entry_stays_until_its_fixed_end(world: World) -> None:
    world.at("working")
    lease = world.claim()
    world.later(1_000)
    world.fire("r", "cancel")
    world.later(LEASE_MS + GRACE_MS - 1_001)
    assert world.poll_status(lease.key) == "not due"
    world.make_due(lease.key)
    assert world.poll_status(lease.key) == "later"
    assert world.state_of() == "draining"
    world.later(1)

    assert world.poll_status(lease.key) == "gone"
    assert world.state_of() == "gone"
    assert world.score(lease.key) is None
    end = world.notes()[-1]
    assert end.kind == f"{lease.name}_finished"
    assert end.detail == {"effect": lease.suffix, "success": False, "error": "unconfirmed"}


def test_the_grace_of_a_carried_effect_is_its_own(world: World) -> None:
    world.at("working")
    lease = world.claim()
    world.fire(lease.record, "go_on", warrant=token(lease))
    world.fire("r", "cancel")

    assert world.entry().kill_by == world.now + LEASE_MS + GRACE_MS


def test_a_member_without_an_entry_leaves_the_index(world: World) -> None:
    world.at("working")
    ghost = "r:9.0:ghost"
    world.make_due(ghost)

    assert world.poll_status(ghost) == "gone"
    assert world.score(ghost) is None


def test_the_score_decides_nothing(world: World) -> None:
    world.at("working")
    lease = world.claim()
    world.make_due(lease.key)
    world.poll()

    assert world.refused(lease.key, "b") == "held"
    world.later(1)
    assert world.state_of() == "leased"


def test_a_carried_effect_that_lapsed_is_reported_as_a_crash_even_when_paused(
    world: World,
) -> None:
    world.at("working")
    lease = world.claim()
    world.fire(lease.record, "go_on", warrant=token(lease))
    world.flag("pause")
    world.later(LEASE_MS)
    polled = world.poll()[lease.key]

    assert (polled.status, polled.detail) == ("crash", lease.token)
    world.fire("r", "fail", warrant=Warrant.lapsed(lease.suffix, polled.detail))
    assert world.record().state == "failed"


def test_a_carried_effect_that_comes_back_is_not_taken_for_lost(world: World) -> None:
    world.at("working")
    lease = world.claim()
    world.fire(lease.record, "go_on", warrant=token(lease))
    world.later(LEASE_MS)
    world.poll()
    world.renew(lease)

    assert world.fails("fail", Warrant.lapsed(lease.suffix, lease.token)) == "FencedError"
    assert world.fire("r", "done", warrant=token(lease)).version == 4


def test_a_lapsed_effect_of_a_paused_record_is_given_up_only_after_its_grace(
    world: World,
) -> None:
    world.at("working")
    lease = world.claim()
    world.flag("pause")
    world.later(LEASE_MS)

    assert world.poll_status(lease.key) == "later"
    assert world.state_of() == "lapsed"
    assert world.score(lease.key) == world.now + GRACE_MS
    world.later(GRACE_MS)
    world.poll()
    assert world.state_of() == "owed"
    assert world.score(lease.key) is None
    assert world.renew(lease) is Order.LOST
    world.flag("resume")
    assert isinstance(world.ask(lease.key, "b"), Lease)


def test_a_quarantined_effect_that_is_in_the_index_leaves_it(world: World) -> None:
    world.at("polishing")
    world.spend("polish")
    key = world.key("polish")
    world.make_due(key)

    assert world.poll_status(key) == "later"
    assert world.score(key) is None
    assert world.state_of("polish") == "quarantined"


def test_the_gate_is_open_only_for_the_server_that_it_was_asked_for(world: World) -> None:
    world.at("working")
    lease = world.claim()
    world.later(LEASE_MS)
    partition, run_id = world.partition(), world.client.info("server")["run_id"]

    for gate_open, server, state in (
        (True, "0" * 40, "leased"),
        (False, run_id, "leased"),
        (True, run_id, "lapsed"),
    ):
        world.make_due(lease.key)
        world.indexes.poll_effects(partition, [lease.key], gate_open=gate_open, server=server)
        assert world.state_of() == state


def test_a_record_waits_for_a_person_since_its_effect_was_quarantined(world: World) -> None:
    world.at("polishing")
    world.spend("polish")

    assert world.indexes.waits([world.partition()], 10) == (1, [("r", world.now)])


def test_used_up_attempts_that_were_reported_are_polled_again_later(world: World) -> None:
    world.at("working")
    world.spend("work")
    key = world.key()
    world.make_due(key)

    assert [world.poll_status(key), world.poll_status(key)] == ["exhausted", "not due"]


def test_a_crash_that_was_reported_is_polled_again_later(world: World) -> None:
    world.at("working")
    lease = world.claim()
    world.fire(lease.record, "go_on", warrant=token(lease))
    world.later(LEASE_MS)

    assert [world.poll_status(lease.key), world.poll_status(lease.key)] == ["crash", "not due"]


def neglected(world: World) -> str:
    """Poll an effect so often that the next poll is far away; return its id."""
    world.at("working")
    key = world.key()
    for _ in range(6):
        world.make_due(key)
        assert world.poll_status(key) == "publish"
    score = world.score(key)
    assert score is not None
    assert score > world.now + 16 * POLL_MS
    return key


def polled_soon(world: World, key: str) -> bool:
    """Whether an effect that is published now is polled again soon."""
    world.make_due(key)
    assert world.poll_status(key) == "publish"
    score = world.score(key)
    return score is not None and score <= world.now + 4 * POLL_MS


def test_an_effect_whose_holder_is_lost_is_polled_as_often_as_a_new_one(world: World) -> None:
    key = neglected(world)
    world.claim()
    world.later(LEASE_MS)

    assert polled_soon(world, key)


def test_an_effect_that_was_given_back_is_polled_as_often_as_a_new_one(world: World) -> None:
    world.at("working")
    lease = world.claim()
    world.later(LEASE_MS)
    for _ in range(6):
        world.make_due(lease.key)
        assert world.poll_status(lease.key) == "publish"
    world.leases.release(lease, counted=False)

    assert polled_soon(world, lease.key)
