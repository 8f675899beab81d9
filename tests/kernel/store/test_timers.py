"""What the stall sweep finds: a timer that is due, and what to do with one that is not."""

from __future__ import annotations

from interlock.kernel.store import scripts
from tests.kernel.store.kernel_at_a_fixed_time import World


def polled(world: World, member: str) -> tuple[str, int | None]:
    """Poll a timer; return its status, and when it is polled next."""
    (timer,) = world.indexes.poll_timers(world.partition(), [member])
    score = scripts.read(world.client, "ZSCORE", world.keys.timers(world.partition()), member)
    return timer.status, None if score is None else int(float(score))


def test_a_timer_that_another_sweep_polled_is_left_to_it(world: World) -> None:
    world.at("idle")
    world.later(5_000)
    first, next_poll = polled(world, "r:kickoff")

    assert first == "due"
    assert polled(world, "r:kickoff") == ("taken", next_poll)


def test_a_timer_that_left_the_index_meanwhile_is_taken(world: World) -> None:
    world.at("idle")

    assert polled(world, "r:expiry") == ("taken", None)


def test_a_timer_of_the_index_that_no_record_has_leaves_it(world: World) -> None:
    world.at("idle")
    index = world.keys.timers(world.partition())
    scripts.read(world.client, "ZADD", index, world.now, "r:expiry")

    assert polled(world, "r:expiry") == ("gone", None)


def test_a_timer_of_a_paused_record_leaves_the_index(world: World) -> None:
    world.at("idle")
    world.flag("pause")
    index = world.keys.timers(world.partition())
    scripts.read(world.client, "ZADD", index, world.now, "r:kickoff")

    assert polled(world, "r:kickoff") == ("gone", None)


def test_a_timer_whose_time_has_not_come_is_polled_then(world: World) -> None:
    world.at("idle")
    index = world.keys.timers(world.partition())
    scripts.read(world.client, "ZADD", index, world.now, "r:kickoff")

    assert polled(world, "r:kickoff") == ("later", world.now + 5_000)
