"""The age of an effect that nobody has at work: no poll of it and no attempt makes it younger."""

from __future__ import annotations

from interlock.kernel.store.owed import OwedEffect, OwedReader
from tests.kernel.store.kernel_at_a_fixed_time import LIMITS, START_US, World, token

START_MS = START_US // 1_000


def owed(world: World) -> list[OwedEffect]:
    return OwedReader(world.client, world.keys).oldest()


def ages_s(world: World) -> list[tuple[str, float]]:
    return [(one.name, (world.now - one.since_ms) / 1_000) for one in owed(world)]


def test_an_effect_that_is_published_again_and_again_has_its_true_age(world: World) -> None:
    world.at("working")
    for _ in range(3):
        world.later(20_000)
        assert world.poll_status(world.key()) == "publish"

    assert ages_s(world) == [("work", 60.0)]
    assert (owed(world)[0].machine, owed(world)[0].attempts) == ("life", 0)


def test_an_effect_that_is_at_work_does_not_wait_and_one_that_failed_waits_since_it_was_owed(
    world: World,
) -> None:
    world.at("working")
    world.later(1_000)
    lease = world.claim()
    assert owed(world) == []
    assert [one.name for one in OwedReader(world.client, world.keys).at_work()] == ["work"]

    world.leases.release(lease, counted=True, delay_ms=5_000)
    world.later(1_000)

    assert ages_s(world) == [("work", 2.0)]
    [one] = owed(world)
    assert one.attempts == 1
    assert OwedReader(world.client, world.keys).at_work() == []


def test_an_effect_whose_holder_is_lost_waits(world: World) -> None:
    world.at("working")
    world.claim()
    world.later(60_000)
    assert world.poll_status(world.key()) == "publish"

    assert ages_s(world) == [("work", 60.0)]


def test_an_effect_of_a_transition_is_as_old_as_its_commit(world: World) -> None:
    world.at("building")
    world.later(10_000)
    world.fire("r", "fail", warrant=token(world.claim("build")))
    world.later(1_000)

    assert ages_s(world) == [("clear", 1.0)]


def test_the_effect_that_waits_longest_comes_first(world: World) -> None:
    for name in ("b", "a"):
        world.at("working", name)
        world.later(1_000)

    assert [one.record_id for one in owed(world)] == ["b", "a"]


def test_what_waits_for_a_person_or_for_the_effect_beside_it_is_left_out(world: World) -> None:
    world.at("working", "paused")
    world.flag("pause", "paused")
    world.at("polishing", "given-up")
    for nonce in ("a", "b"):
        world.leases.release(world.claim("polish", nonce, "given-up"), counted=True)
    world.later(LIMITS.poll_ms)
    world.poll("given-up")
    assert world.state_of("polish", "given-up") == "quarantined"
    world.at("building", "busy")
    world.claim("build", "a", "busy")
    world.fire("busy", "again")
    assert world.state_of("build", "busy") == "draining,owed"

    others = {"notify", "clear"}  # of the transitions, and beside no effect that is at work
    assert {one.name for one in owed(world)} <= others
