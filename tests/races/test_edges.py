"""Many callers at one transition: one wins, the others get the reason, and it happens once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

import pytest

from interlock.kernel.errors import (
    FencedError,
    IllegalTransitionError,
    KernelError,
    StaleDecisionError,
)
from interlock.kernel.store.commands import Warrant
from interlock.kernel.store.fold import fold, sums
from interlock.kernel.store.leases import Lease, Order, Refused
from tests.kernel.store.kernel_at_a_fixed_time import START_US, Text, World, token
from tests.kernel.store.tables import EXPIRY_MS, LEASE_MS, LIFE

RACERS = 64
T = TypeVar("T")


def race(act: Callable[[int], T]) -> list[T | KernelError]:
    """Make all calls at once; return the result of each."""
    start = Barrier(RACERS)

    def run(number: int) -> T | KernelError:
        start.wait()
        try:
            return act(number)
        except KernelError as refusal:
            return refusal

    with ThreadPoolExecutor(RACERS) as pool:
        return list(pool.map(run, range(RACERS)))


def test_sixty_four_callers_of_one_transition_have_one_winner(world: World) -> None:
    world.at("asking")
    results = race(lambda n: world.fire("r", "approve", op=f"racer-{n}").version)

    assert results.count(4) == 1
    assert sum(isinstance(one, IllegalTransitionError) for one in results) == RACERS - 1
    assert world.record().version == 4


def test_sixty_four_decisions_about_one_card_are_one(world: World) -> None:
    record = world.at("asking")
    seen = Warrant.person(record.entered)
    results = race(lambda n: world.fire(record, "revise", warrant=seen, op=f"racer-{n}").version)

    assert results.count(4) == 1
    assert sum(isinstance(one, StaleDecisionError) for one in results) == RACERS - 1


def test_one_call_repeated_sixty_four_times_at_once_is_one(world: World) -> None:
    record = world.at("working")
    results = race(lambda _: world.fire(record, "poke", op="same", deltas={"spent": 7}).version)

    assert results == [3] * RACERS
    assert world.counter("spent") == 7


def test_sixty_four_different_calls_all_get_through_in_one_order(world: World) -> None:
    world.at("working")
    results = race(lambda n: world.fire("r", "poke", op=f"racer-{n}", deltas={"spent": n}).version)
    versions = sorted(one for one in results if isinstance(one, int))

    assert versions == list(range(3, 3 + len(versions)))
    assert len(versions) > RACERS // 2
    lines = world.views.history("r")
    assert fold(LIFE, lines).version == world.record().version == versions[-1]
    assert sums(lines)["spent"] == world.counter("spent")


def test_sixty_four_claims_have_one_holder(world: World) -> None:
    world.at("working")
    key = world.key()
    results = race(lambda n: world.ask(key, f"n{n}"))

    assert sum(isinstance(one, Lease) for one in results) == 1
    assert {result.status for result in results if isinstance(result, Refused)} == {"held"}
    assert world.entry().attempts == 1


def test_sixty_four_creations_of_one_id_are_one(world: World) -> None:
    results = race(lambda n: world.create("r", {"value": n % 2}).replayed)

    assert results.count(False) == 1
    assert len(world.events()) == 1


def test_a_retry_after_another_commit_is_not_applied_twice(world: World) -> None:
    record = world.at("working")
    first = world.fire(record, "poke", {"value": 1}, op="mine")
    world.fire("r", "poke", {"value": 2}, op="theirs")
    again = world.fire(record, "poke", {"value": 1}, op="mine")

    assert (again.version, again.replayed) == (first.version, True)
    assert world.record().data["value"] == 2


def test_a_renewal_that_races_the_orphan_sweep_keeps_its_lease(world: World, text: Text) -> None:
    text.now_us = START_US
    world.at("working")
    lease = world.claim()
    world.fire(lease.record, "go_on", warrant=token(lease))
    world.later(LEASE_MS)
    polled = world.poll()[lease.key]
    assert polled.status == "crash"
    assert world.renew(lease) is Order.GO

    with pytest.raises(FencedError):
        world.fire("r", "fail", warrant=Warrant.lapsed(lease.suffix, polled.detail))
    assert world.fire("r", "done", warrant=token(lease)).version == 4


def test_a_crash_that_was_faster_than_the_renewal_fences_it(world: World, text: Text) -> None:
    text.now_us = START_US
    world.at("working")
    lease = world.claim()
    world.fire(lease.record, "go_on", warrant=token(lease))
    world.later(LEASE_MS)
    polled = world.poll()[lease.key]
    world.fire("r", "fail", warrant=Warrant.lapsed(lease.suffix, polled.detail))

    assert world.renew(lease) is Order.STOP
    with pytest.raises(FencedError):
        world.fire("r", "done", warrant=token(lease))


def test_a_record_that_left_a_timed_state_and_came_back_is_not_ended_by_the_old_timer(
    world: World, text: Text
) -> None:
    text.now_us = START_US
    world.at("asking")
    world.later(EXPIRY_MS)
    polled = world.poll_timers()["expiry"]
    world.fire("r", "revise")
    world.fire("r", "done")

    with pytest.raises(FencedError):
        world.fire("r", "expire", warrant=world.due(polled))
    assert world.record().state == "asking"


def test_sweeps_that_run_at_once_hand_out_each_effect_once(world: World, text: Text) -> None:
    text.now_us = START_US
    world.at("working")
    key = world.key()
    world.later(1_000)
    partition = world.partition()
    results = race(lambda _: world.indexes.poll_effects(partition, [key], gate_open=True)[0].status)

    assert sorted(str(word) for word in results) == ["publish"] + ["taken"] * (RACERS - 1)
