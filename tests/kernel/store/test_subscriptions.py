"""Subscriptions across partitions: each subscriber hears of an end once, before or after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from threading import Barrier
from typing import Any

import pytest

from interlock.kernel.record import PARTITIONS, partition_of
from interlock.kernel.store import scripts
from interlock.kernel.store.leases import Lease
from interlock.kernel.store.subscriptions import AHEAD_MS, MISSING, PAGE, PRUNED, Subscriber
from tests.kernel.store.kernel_at_a_fixed_time import World, token
from tests.kernel.store.tables import LEASE_MS

TARGET = "g/a"
RACERS = 64


def node(world: World, of: str = TARGET) -> str:
    world.create(of, machine="node")
    return of


def counting(world: World, of: str) -> tuple[Subscriber, Lease]:
    """Bear a record that waits for others; return it, and the lease of who registers it."""
    node(world, of)
    fired = world.fire(of, "activate")
    spawn = world.claim("register", of=of)
    return Subscriber.of(world.record(of), f"needs:{fired.version}"), spawn


def tally(world: World, one: Subscriber) -> dict[str, int]:
    return world.views.tally(one.id, one.countdown)


def depart(world: World, one: Subscriber, member: str, outcome: str) -> bool:
    """Take a member out; tell whether that owed the advance."""
    answer = world.lifecycle.store.leave_countdown(one, member, outcome, world.lifecycle.render)
    return bool(answer.owed)


def ask(world: World, one: Subscriber, target: str = TARGET) -> str:
    """Subscribe as an effect does: a record that has ended leaves the countdown at once."""
    ended = world.subscriptions.subscribe(target, one)
    if ended:
        depart(world, one, target, ended)
    return ended


def tell(world: World, target: str = TARGET) -> list[Subscriber]:
    """Tell everybody of an end, as an effect does."""
    told = list(world.subscriptions.subscribers(target))
    state = world.record(target).state
    for one in told:
        depart(world, one, target, state)
    return told


def test_who_registers_before_the_end_is_kept_until_after_it(world: World) -> None:
    one, _ = counting(world, "h/w")
    node(world)
    assert world.subscriptions.subscribe(TARGET, one) == ""
    world.fire(TARGET, "cancel")

    assert list(world.subscriptions.subscribers(TARGET)) == [one]
    assert world.state_of("notification", TARGET) == "owed"


def test_who_registers_after_the_end_is_told_at_once_and_kept_nowhere(world: World) -> None:
    one, _ = counting(world, "h/w")
    node(world)
    world.fire(TARGET, "cancel")
    before = world.dump()

    assert [world.subscriptions.subscribe(TARGET, one) for _ in range(2)] == ["canceled"] * 2
    assert world.dump() == before
    assert list(world.subscriptions.subscribers(TARGET)) == []


def test_who_registers_with_nobody_is_told_so_and_leaves_no_trace(world: World) -> None:
    one, _ = counting(world, "h/w")
    before = world.dump()

    assert world.subscriptions.subscribe("nobody/there", one) == MISSING
    assert world.dump() == before


def test_a_repeated_registration_is_one_and_another_countdown_is_another(world: World) -> None:
    one, _ = counting(world, "h/w")
    node(world)
    for _ in range(3):
        world.subscriptions.subscribe(TARGET, one)
    world.fire("h/w", "suspend")
    again = Subscriber.of(world.record("h/w"), f"needs:{world.fire('h/w', 'resume').version}")
    world.subscriptions.subscribe(TARGET, again)

    found = sorted(world.subscriptions.subscribers(TARGET), key=lambda found: found.countdown)
    assert found == [one, again]


def test_a_dependent_comes_back_as_it_was(world: World) -> None:
    node(world)
    world.create("h/w", machine="node", priority=0)
    one = Subscriber.of(world.record("h/w"), "needs:12")
    world.subscriptions.subscribe(TARGET, one)

    assert list(world.subscriptions.subscribers(TARGET)) == [one]
    assert (one.machine, one.priority) == ("node", 0)


def test_there_may_be_more_dependents_than_fit_on_a_page(world: World) -> None:
    node(world)
    many = {Subscriber(world.record(TARGET).id, f"needs:{n}", "node", 5) for n in range(3 * PAGE)}
    for one in many:
        world.subscriptions.subscribe(TARGET, one)

    assert set(world.subscriptions.subscribers(TARGET)) == many


def test_who_joins_is_counted_while_the_placeholder_is_in(world: World) -> None:
    one, spawn = counting(world, "h/w")
    assert world.subscriptions.join(one, ["g/a", "g/b"])
    assert world.subscriptions.join(one, ["g/b"]), "a repeat adds nobody twice"
    assert world.views.counted(one.id, one.countdown) == {"*", "g/a", "g/b"}
    world.settle(spawn)

    assert not world.subscriptions.join(one, ["g/c"])
    assert world.views.counted(one.id, one.countdown) == {"g/a", "g/b"}


def test_nobody_joins_before_a_countdown_or_a_later_one(world: World) -> None:
    one, _ = counting(world, "h/w")

    for countdown in ("needs:3", "others:2"):
        stranger = Subscriber(one.id, countdown, one.machine, one.priority)
        assert not world.subscriptions.join(stranger, ["g/a"])
        assert world.views.counted(one.id, countdown) == set()


def test_nobody_joins_a_record_that_ended_although_the_placeholder_is_in(world: World) -> None:
    one, spawn = counting(world, "h/w")
    world.fire("h/w", "cancel")
    assert world.views.counted(one.id, one.countdown) == {"*"}

    assert not world.subscriptions.join(one, ["g/a"])
    assert world.views.counted(one.id, one.countdown) == {"*"}
    assert world.settle(spawn).owed == ()
    assert world.state_of("cascade", "h/w") == "gone"


def test_more_join_than_fit_on_a_page(world: World) -> None:
    one, _ = counting(world, "h/w")
    members = [f"g/{number}" for number in range(2 * PAGE + 1)]

    assert world.subscriptions.join(one, members)
    assert world.views.counted(one.id, one.countdown) == {"*", *members}


def test_a_countdown_goes_on_while_its_record_is_elsewhere(world: World) -> None:
    one, spawn = counting(world, "h/w")
    world.subscriptions.join(one, [TARGET])
    world.fire("h/w", "suspend")
    assert world.subscriptions.join(one, ["g/b"])
    world.settle(spawn)
    depart(world, one, TARGET, "done")

    assert depart(world, one, "g/b", "done")
    lease = world.claim("cascade", of="h/w")
    world.fire("h/w", "met", {"tally": tally(world, one)}, warrant=token(lease))
    assert world.record("h/w").state == "aside"


ORDERS = [
    tuple(("asks" if n in asking else "ends") for n in range(4))
    for asking in combinations(range(4), 2)
]


@pytest.mark.parametrize("order", ORDERS, ids="-".join)
def test_in_whatever_order_each_hears_once(world: World, order: Sequence[str]) -> None:
    """A member joins and subscribes while a record ends and notifies, in all six orders."""
    one, spawn = counting(world, "h/w")
    node(world)
    heard: list[str] = []
    asks: Iterator[Callable[[], object]] = iter(
        (lambda: world.subscriptions.join(one, [TARGET]), lambda: heard.append(ask(world, one)))
    )
    ends: Iterator[Callable[[], object]] = iter(
        (lambda: world.fire(TARGET, "cancel"), lambda: heard.extend(map(str, tell(world))))
    )
    for who in order:
        next(asks if who == "asks" else ends)()
    world.settle(spawn)

    assert len(list(filter(None, heard))) == 1
    assert tally(world, one) == {"canceled": 1}
    assert world.views.counted(one.id, one.countdown) == set()
    assert world.state_of("cascade", "h/w") == "owed"


@pytest.mark.parametrize("done", [0, 20, 64])
def test_sixty_four_that_ask_while_it_ends_hear_once_each(world: World, done: int) -> None:
    """`done` of them have registered before the race begins."""
    node(world)
    waiting = [counting(world, f"d{number}/w") for number in range(RACERS)]
    for one, _ in waiting[:done]:
        world.subscriptions.join(one, [TARGET])
        assert world.subscriptions.subscribe(TARGET, one) == ""
    racing = waiting[done:]
    start = Barrier(len(racing) + 1)

    def asks(one: Subscriber) -> str:
        start.wait()
        world.subscriptions.join(one, [TARGET])
        return ask(world, one)

    def ends() -> list[Subscriber]:
        start.wait()
        world.fire(TARGET, "cancel")
        return tell(world)

    with ThreadPoolExecutor(len(racing) + 1) as pool:
        end = pool.submit(ends)
        answers = list(pool.map(asks, [one for one, _ in racing]))
    heard = {one.id for (one, _), answer in zip(racing, answers, strict=True) if answer}
    told = [one.id for one in end.result()]

    kept = [one.id for one, _ in waiting if one.id not in heard]
    assert sorted(told) == sorted(kept), "who was kept is told, and who was told was kept"
    for one, spawn in waiting:
        assert tally(world, one) == {"canceled": 1}
        assert world.settle(spawn).owed
        assert world.views.counted(one.id, one.countdown) == set()


def test_five_hundred_ends_in_other_partitions_advance_once(world: World) -> None:
    one, spawn = counting(world, "h/w")
    members = [f"p{number}/x" for number in range(500)]
    assert {partition_of(member) for member in members} == set(range(PARTITIONS))
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda member: node(world, member), members))
        assert world.subscriptions.join(one, members)
        assert set(
            pool.map(lambda member: world.subscriptions.subscribe(member, one), members)
        ) == {""}
        world.settle(spawn)

        def end(member: str) -> bool:
            world.fire(member, "cancel")
            (found,) = world.subscriptions.subscribers(member)
            return depart(world, found, member, "canceled")

        owed = list(pool.map(end, members))

    assert owed.count(True) == 1
    assert tally(world, one) == {"canceled": 500}
    assert world.views.counted(one.id, one.countdown) == set()
    advance = world.claim("cascade", of="h/w")
    assert advance.key.startswith("h/w:2.advance.needs:")
    world.fire("h/w", "met", {"tally": tally(world, one)}, warrant=token(advance))
    assert world.record("h/w").data["met"]


def test_a_repeated_departure_and_one_of_a_stranger_change_nothing(world: World) -> None:
    one, spawn = counting(world, "h/w")
    world.subscriptions.join(one, [TARGET])
    world.settle(spawn)
    assert depart(world, one, TARGET, "done")
    advance = world.claim("cascade", of="h/w")
    before = world.dump()

    for member in (TARGET, "g/stranger"):
        assert not depart(world, one, member, "done")
    assert world.dump() == before, "who holds the advance is not disturbed"
    assert world.settle(advance).status == "settled"


def test_whoever_leaves_before_the_placeholder_owes_nothing(world: World) -> None:
    one, spawn = counting(world, "h/w")
    world.subscriptions.join(one, [TARGET])

    assert not depart(world, one, TARGET, "done")
    assert world.state_of("cascade", "h/w") == "gone"
    assert [message.name for message in world.settle(spawn).owed] == ["cascade"]


def test_nobody_waits_any_more_who_has_ended(world: World) -> None:
    one, spawn = counting(world, "h/w")
    world.subscriptions.join(one, [TARGET])
    world.settle(spawn)
    world.fire("h/w", "cancel")

    assert not depart(world, one, TARGET, "done")
    assert world.state_of("cascade", "h/w") == "gone"


def test_a_departure_from_a_record_that_is_gone_owes_nothing(world: World) -> None:
    one, spawn = counting(world, "h/w")
    world.subscriptions.join(one, [TARGET])
    world.settle(spawn)
    scripts.read(world.client, "DEL", world.keys.record("h/w"))

    assert not depart(world, one, TARGET, "done")
    assert world.keys.record("h/w").encode() not in world.dump()


def test_a_departure_from_a_record_that_is_forgotten_writes_nothing(world: World) -> None:
    one, spawn = counting(world, "h/w")
    world.subscriptions.join(one, [TARGET])
    world.settle(spawn)
    for entry in world.record("h/w").entries:
        world.settle(world.claim_key(entry.key("h/w")))
    world.fire("h/w", "cancel")
    settle_all(world, "h/w")
    assert world.indexes.prune(world.record("h/w"), ["needs:2"], age_ms=0) == "pruned"
    before = world.dump()

    assert not depart(world, one, TARGET, "done")
    assert not world.subscriptions.join(one, [TARGET])
    assert world.dump() == before


def test_an_advance_that_is_pushed_by_the_script_is_not_published_again(world: World) -> None:
    one, spawn = counting(world, "h/w")
    world.subscriptions.join(one, [TARGET])
    world.settle(spawn)
    queue = f"{world.keys.tag(partition_of('h/w'))}q"
    world.lifecycle.render = lambda message: (queue, message.key.encode())
    assert not depart(world, one, TARGET, "done")

    assert world.list_of(queue) == [world.key("cascade", "h/w").encode()]


def test_a_paused_record_is_advanced_when_it_goes_on(world: World) -> None:
    one, spawn = counting(world, "h/w")
    world.subscriptions.join(one, [TARGET])
    world.settle(spawn)
    world.flag("pause", "h/w")
    depart(world, one, TARGET, "done")
    assert world.score(world.key("cascade", "h/w")) is None
    world.flag("resume", "h/w")

    assert world.score(world.key("cascade", "h/w")) == world.now


def test_whoever_is_lost_while_it_registers_is_followed_by_another(world: World) -> None:
    """The second counts all again; who had left comes in again and leaves again. One advance."""
    one, spawn = counting(world, "h/w")
    node(world)
    world.subscriptions.join(one, [TARGET])
    assert ask(world, one) == ""
    world.fire(TARGET, "cancel")
    tell(world)
    world.later(LEASE_MS)
    world.poll("h/w")
    second = world.claim("register", "b", "h/w")
    assert world.subscriptions.join(one, [TARGET])
    assert ask(world, one) == "canceled"
    assert world.settle(spawn).status == "lost"

    assert len(world.settle(second).owed) == 1
    assert world.state_of("cascade", "h/w") == "owed"


def test_an_end_that_nobody_waits_for_owes_no_tell(world: World) -> None:
    node(world)
    fired = world.fire(TARGET, "cancel")

    assert world.state_of("notification", TARGET) == "gone"
    assert [message.name for message in fired.owed] == ["show"]


def test_a_change_that_is_no_end_owes_no_tell(world: World) -> None:
    one, _ = counting(world, "h/w")
    node(world)
    world.subscriptions.subscribe(TARGET, one)
    world.fire(TARGET, "activate")

    assert world.state_of("notification", TARGET) == "gone"


def test_who_registers_ahead_hears_of_the_end_of_a_record_that_came_later(world: World) -> None:
    one, _ = counting(world, "h/w")
    assert world.subscriptions.subscribe_ahead(TARGET, one) == (MISSING, "")
    kept: Any = scripts.read(world.client, "PTTL", world.keys.subscribers(TARGET))
    assert AHEAD_MS - 60_000 < kept <= AHEAD_MS, "what never comes leaves nothing behind"

    node(world)
    world.fire(TARGET, "cancel")
    assert world.state_of("notification", TARGET) == "owed"
    assert list(world.subscriptions.subscribers(TARGET)) == [one]


def test_who_asks_for_a_record_that_is_not_there_leaves_who_came_ahead(world: World) -> None:
    one, _ = counting(world, "h/w")
    world.subscriptions.subscribe_ahead(TARGET, one)
    before = world.dump()

    assert world.subscriptions.subscribe(TARGET, one) == MISSING
    assert world.dump() == before


def test_who_registers_with_a_live_record_is_kept_as_long_as_that(world: World) -> None:
    one, _ = counting(world, "h/w")
    world.subscriptions.subscribe_ahead(TARGET, one)
    node(world)
    assert world.subscriptions.subscribe_ahead(TARGET, one) == ("", "")

    kept: Any = scripts.read(world.client, "PTTL", world.keys.subscribers(TARGET))
    assert kept == -1


def test_who_registers_with_a_record_that_is_deleted_is_told_so(world: World) -> None:
    one, _ = counting(world, "h/w")
    node(world)
    world.fire(TARGET, "cancel")
    assert world.subscriptions.subscribe_ahead(TARGET, one) == ("", "canceled")
    settle_all(world, TARGET)
    assert world.indexes.prune(world.record(TARGET), [], age_ms=0) == "pruned"
    before = world.dump()

    assert world.subscriptions.subscribe_ahead(TARGET, one) == (PRUNED, "")
    assert world.dump() == before


@pytest.mark.parametrize("paused", [False, True])
def test_every_end_owes_its_tell_once(world: World, *, paused: bool) -> None:
    one, _ = counting(world, "h/w")
    node(world)
    world.subscriptions.subscribe(TARGET, one)
    if paused:
        world.flag("pause", TARGET)
    world.fire(TARGET, "cancel")

    entry = world.entry("notification", TARGET)
    assert (entry.state, str(entry.kind)) == ("owed", "transition")
    assert world.score(entry.key(TARGET)) is not None


def settle_all(world: World, of: str) -> None:
    for entry in world.record(of).entries:
        world.settle(world.claim_key(entry.key(of)))


def test_who_is_still_to_be_told_keeps_an_ended_record_and_goes_with_it(world: World) -> None:
    one, _ = counting(world, "h/w")
    node(world)
    world.subscriptions.subscribe(TARGET, one)
    world.fire(TARGET, "cancel")
    assert world.indexes.prune(world.record(TARGET), [], age_ms=0) == "busy"
    settle_all(world, TARGET)
    assert world.indexes.prune(world.record(TARGET), [], age_ms=0) == "pruned"

    left = [key.decode().rpartition("}:")[2] for key in world.dump()]
    assert [name for name in left if TARGET in name] == [f"x:{TARGET}"]
    assert world.subscriptions.subscribe(TARGET, one) == MISSING
