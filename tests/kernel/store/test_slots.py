"""Slots: never more holders than the limit, first come first, and who is given one hears of it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event, Lock
from typing import Any

from interlock.kernel.record import Record, RecordId
from interlock.kernel.store import scripts
from tests.kernel.store.kernel_at_a_fixed_time import World

NAME = "graph"
UNHEARD_MS = 10_000
RACERS = 16
RINGS_MAX = 100


def node(world: World, name: str, priority: int = 5) -> Record:
    of = f"g/{name}"
    world.create(of, machine="node", priority=priority)
    world.later(1)
    return world.record(of)


def nodes(world: World, names: str) -> dict[str, Record]:
    """Bear one record after the other."""
    return {name: node(world, name) for name in names}


def holders(world: World, name: str = NAME) -> list[str]:
    found: Any = scripts.read(world.client, "ZRANGE", world.keys.slots(name), 0, -1)
    return sorted(member.decode() for member in found)


def line(world: World, name: str = NAME) -> list[str]:
    found: Any = scripts.read(world.client, "ZRANGE", world.keys.slots_queue(name), 0, -1)
    return [member.decode() for member in found]


def occupy(world: World, record: Record, limit: int = 1) -> bool:
    return world.slots.acquire(NAME, record, limit).held


def test_as_many_hold_a_slot_as_there_are_and_the_others_stand_in_line(world: World) -> None:
    every = nodes(world, "abcd")
    held = {name: occupy(world, record, 2) for name, record in every.items()}

    assert held == {"a": True, "b": True, "c": False, "d": False}
    assert (holders(world), line(world)) == (["g/a", "g/b"], ["g/c", "g/d"])


def test_a_slot_that_is_given_back_goes_by_priority_then_age(world: World) -> None:
    holder, late = node(world, "holder"), node(world, "z")
    later, urgent = node(world, "a"), node(world, "urgent", priority=0)
    least = node(world, "least", priority=9)
    assert occupy(world, holder)
    for record in (least, later, urgent, late):
        assert not occupy(world, record)
    leaving = [holder.id, urgent.id, late.id, later.id, least.id]

    given = [world.slots.release(NAME, of, 1) for of in leaving]
    assert given == [(urgent.id,), (late.id,), (later.id,), (least.id,), ()]


def test_whoever_came_first_keeps_its_place_when_it_asks_again(world: World) -> None:
    every = nodes(world, "abc")
    for record in every.values():
        occupy(world, record)
    world.later(1_000)
    assert not occupy(world, every["b"])

    assert line(world) == ["g/b", "g/c"]
    urgent: Record = Record(
        every["c"].id, "node", "ready", every["c"].version, {}, priority=0, created_ms=1
    )
    assert not occupy(world, urgent)
    assert line(world) == ["g/b", "g/c"], "once in line, its place is its own"


def test_a_repeat_keeps_the_slot_and_stands_in_no_line(world: World) -> None:
    every = nodes(world, "ab")
    assert [occupy(world, every["a"]) for _ in range(3)] == [True] * 3
    assert (holders(world), line(world)) == (["g/a"], [])
    assert not occupy(world, every["b"])

    assert occupy(world, every["a"])
    assert (holders(world), line(world)) == (["g/a"], ["g/b"])


def test_without_a_limit_everybody_has_a_slot(world: World) -> None:
    every = nodes(world, "abc")

    assert [occupy(world, record, 0) for record in every.values()] == [True] * 3
    assert len(holders(world)) == 3


def test_slots_of_one_name_are_not_those_of_another(world: World) -> None:
    every = nodes(world, "ab")
    assert occupy(world, every["a"])

    assert world.slots.acquire("queue-slow", every["b"], 1).held
    assert (holders(world), holders(world, "queue-slow")) == (["g/a"], ["g/b"])


def test_who_has_nothing_gives_nothing_back(world: World) -> None:
    every = nodes(world, "abc")
    occupy(world, every["a"])
    occupy(world, every["b"])
    before = world.dump()

    for nobody in ("g/c", "g/stranger", ""):
        assert world.slots.release(NAME, nobody, 1) == ()
    assert world.slots.release("no-such-name", "g/a", 1) == ()
    assert world.dump() == before


def test_a_repeat_gives_back_once(world: World) -> None:
    every = nodes(world, "abc")
    for record in every.values():
        occupy(world, record)
    assert world.slots.release(NAME, "g/a", 1) == ("g/b",)

    assert world.slots.release(NAME, "g/a", 1) == ()
    assert (holders(world), line(world)) == (["g/b"], ["g/c"])


def test_whoever_leaves_the_line_is_given_nothing(world: World) -> None:
    every = nodes(world, "abc")
    for record in every.values():
        occupy(world, record)
    assert world.slots.release(NAME, "g/b", 1) == ()
    assert line(world) == ["g/c"]

    assert world.slots.release(NAME, "g/a", 1) == ("g/c",)


def test_names_that_nobody_uses_leave_nothing_behind(world: World) -> None:
    every = nodes(world, "ab")
    for record in every.values():
        occupy(world, record)
    for record in every.values():
        world.slots.release(NAME, record.id, 1)

    assert not [key for key in world.dump() if b"slots" in key]


def test_a_raised_limit_is_handed_out_without_anybody_leaving(world: World) -> None:
    every = nodes(world, "abcd")
    for record in every.values():
        occupy(world, record)

    assert sorted(world.slots.release(NAME, "", 3)) == ["g/b", "g/c"]
    assert line(world) == ["g/d"]
    assert world.slots.release(NAME, "", 0) == ("g/d",)
    assert line(world) == []


def test_a_lowered_limit_takes_nothing_away_and_hands_out_nothing(world: World) -> None:
    every = nodes(world, "abcd")
    for name in "abc":
        assert occupy(world, every[name], 3)
    assert not occupy(world, every["d"], 1)

    assert occupy(world, every["b"], 1)
    assert world.slots.release(NAME, "g/a", 1) == ()
    assert world.slots.release(NAME, "g/b", 1) == ()
    assert world.slots.release(NAME, "g/c", 1) == ("g/d",)


def test_who_is_given_a_slot_is_rung_once_and_again_while_it_is_not_heard(world: World) -> None:
    every = nodes(world, "abc")
    for record in every.values():
        occupy(world, record)
    assert world.slots.release(NAME, "g/a", 1) == ("g/b",)
    assert world.slots.release(NAME, "", 1) == ()
    world.later(UNHEARD_MS - 1)
    assert world.slots.acquire(NAME, every["c"], 1).to_wake == ()
    world.later(1)
    assert world.slots.acquire(NAME, every["c"], 1).to_wake == ("g/b",)
    assert world.slots.release(NAME, "", 1) == (), "it was rung just now"
    world.later(UNHEARD_MS)
    assert world.slots.release(NAME, "", 1) == ("g/b",)

    assert occupy(world, every["b"])
    world.later(10 * UNHEARD_MS)
    assert world.slots.release(NAME, "", 1) == (), "its place was taken"
    assert holders(world) == ["g/b"]


def test_who_was_rung_before_the_clock_was_set_back_is_rung_again(world: World) -> None:
    every = nodes(world, "ab")
    occupy(world, every["a"])
    occupy(world, every["b"])
    assert world.slots.release(NAME, every["a"].id, 1) == (every["b"].id,)
    world.later(-3_600_000)

    assert world.slots.release(NAME, "", 1) == (every["b"].id,)
    assert world.slots.release(NAME, "", 1) == ()


def test_a_repeat_of_a_call_names_again_whom_the_first_one_named(world: World) -> None:
    every = nodes(world, "abc")
    for record in every.values():
        occupy(world, record)
    keys = world.keys
    named = {
        "holders": keys.slots(NAME),
        "queue": keys.slots_queue(NAME),
        "reports": keys.slots_reports(NAME),
    }

    def release(call_id: str) -> Any:
        plan = {"id": "g/a", "limit": 1, "call_id": call_id, "taken_by": "any"}
        return scripts.call(world.client, "release_slot", named, plan)[1:]

    assert [release("one"), release("one"), release("two")] == [[b"g/b"], [b"g/b"], []]
    occupy(world, every["b"])
    assert release("one") == [], "it has its slot"


def test_who_takes_a_slot_itself_need_not_be_rung(world: World) -> None:
    every = nodes(world, "ab")

    for record in every.values():
        assert world.slots.acquire(NAME, record, 2).to_wake == ()
    world.later(UNHEARD_MS)
    assert world.slots.release(NAME, "", 2) == ()


def test_whoever_asks_hears_of_others_that_were_given_a_slot(world: World) -> None:
    every = nodes(world, "abc")
    occupy(world, every["a"])
    occupy(world, every["b"])

    answer = world.slots.acquire(NAME, every["c"], 2)
    assert (answer.held, answer.to_wake) == (False, ("g/b",))


def test_an_unheard_slot_can_be_given_back_by_who_is_rung(world: World) -> None:
    every = nodes(world, "abc")
    for record in every.values():
        occupy(world, record)
    world.slots.release(NAME, "g/a", 1)

    assert world.slots.release(NAME, "g/b", 1) == ("g/c",)
    assert holders(world) == ["g/c"]


def test_so_many_are_rung_at_a_time(world: World) -> None:
    every = [node(world, f"n{number}") for number in range(RINGS_MAX + 30)]
    for record in every:
        occupy(world, record)
    first = world.slots.release(NAME, "", 0)
    second = world.slots.release(NAME, "", 0)

    assert (len(first), len(second)) == (RINGS_MAX, 29)
    assert len({*first, *second}) == RINGS_MAX + 29


def test_sixteen_that_race_for_three_slots_are_never_more_than_three(world: World) -> None:
    """Each takes a slot as often as the others. One that finds none waits until it is woken."""
    limit, rounds = 3, 5
    every = [node(world, f"n{number}") for number in range(RACERS)]
    bells = {record.id: Event() for record in every}
    inside: set[str] = set()
    most, lock, served = [0], Lock(), []

    def ring(rings: tuple[RecordId, ...]) -> None:
        for one in rings:
            bells[one].set()

    def runs(record: Record) -> None:
        for _ in range(rounds):
            while True:
                answer = world.slots.acquire(NAME, record, limit)
                ring(answer.to_wake)
                if answer.held:
                    break
                assert bells[record.id].wait(180), "nobody ever rang"
                bells[record.id].clear()
            with lock:
                inside.add(record.id)
                most[0] = max(most[0], len(inside), len(holders(world)))
                served.append(record.id)
            with lock:
                inside.discard(record.id)
            ring(world.slots.release(NAME, record.id, limit))

    with ThreadPoolExecutor(RACERS) as pool:
        list(pool.map(runs, every))

    assert most[0] <= limit
    assert sorted(served) == sorted([record.id for record in every] * rounds)
    assert (holders(world), line(world)) == ([], [])


def test_one_slot_is_given_once_however_many_give_it_back_at_once(world: World) -> None:
    every = [node(world, f"n{number}") for number in range(RACERS)]
    for record in every:
        occupy(world, record)
    with ThreadPoolExecutor(RACERS) as pool:
        given = list(pool.map(lambda _: world.slots.release(NAME, every[0].id, 1), range(RACERS)))

    assert sorted(given, key=len) == [()] * (RACERS - 1) + [(every[1].id,)]
    assert holders(world) == [every[1].id]
