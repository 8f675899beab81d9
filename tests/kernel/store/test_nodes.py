"""What a machine has beside its rows: bounds that a row changes, a mirror, slots, subscriptions."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

from interlock.kernel.effect import Kind
from interlock.kernel.errors import HeldError, InvalidPayloadError
from interlock.kernel.record import Record, RecordId, Version
from interlock.kernel.store import scripts
from interlock.kernel.store.subscriptions import Subscriber
from interlock.kernel.table import UNBOUND
from tests.kernel.store.kernel_at_a_fixed_time import LIMITS, World
from tests.kernel.store.machines_nodes import NODE

OF = "g/a"
RACERS = 16


def node(world: World, *triggers: str, of: str = OF, **given: Any) -> str:
    world.create(of, given, machine="node")
    for trigger in triggers:
        world.fire(of, trigger)
    return of


def cap(world: World, of: str = OF, *, name: str = "cap.spent") -> int | None:
    found: Any = scripts.read(world.client, "HGET", world.keys.counters(of), name)
    return None if found is None else int(found)


def most(world: World, of: str = OF) -> int | None:
    return cap(world, of, name="cap.runs")


def start(world: World, of: str, runs: int = 1) -> bool:
    """Begin with so many runs; False where they are used up."""
    try:
        world.fire(of, "begin", op=f"begin {of} {world.record(of).version}", deltas={"runs": runs})
    except HeldError:
        return False
    return True


def ready(world: World, names: str, **given: Any) -> list[str]:
    """Bear a family that may use what is given, and one that could begin for each name."""
    world.create("g", given, machine="root")
    return [node(world, "activate", of=f"g/{name}") for name in names]


def owed(world: World, name: str, of: str = OF) -> int:
    """Say how many effects of this name are owed."""
    return sum(entry.name == name for entry in world.record(of).entries)


def test_a_root_is_born_with_its_own_cap_and_another_may_be_said(world: World) -> None:
    node(world, cap=100)
    node(world, of="g/free")
    world.create("g/said", {"cap": 100, "runs": 4}, machine="node", cap=7)

    assert [cap(world, of) for of in (OF, "g/free", "g/said")] == [100, None, 7]
    assert [most(world, of) for of in (OF, "g/free", "g/said")] == [None, None, 4]


def test_a_row_that_caps_changes_what_may_be_spent_from_then_on(world: World) -> None:
    node(world, cap=100)
    for amount in (50, 200):
        world.fire(OF, "configure", {"cap": amount})
        assert cap(world) == amount
    for trigger in ("activate", "begin"):
        world.fire(OF, trigger)
    lease = world.claim("run", of=OF)

    assert world.reserve(lease, 201) == "over"
    assert world.reserve(lease, 200) == "reserved"


def test_a_row_that_does_not_cap_leaves_the_cap_alone(world: World) -> None:
    node(world, "activate", "begin", cap=100)
    world.fire(OF, "poke", {"cap": 5})

    assert world.record(OF).data["cap"] == 5
    assert cap(world) == 100


def test_a_cap_that_was_lowered_below_what_is_spent_lets_nothing_through(world: World) -> None:
    node(world, cap=100)
    world.note(OF, deltas={"spent": 60}, op="bill")
    world.fire(OF, "configure", {"cap": 50})
    for trigger in ("activate", "begin"):
        world.fire(OF, trigger)

    assert world.reserve(world.claim("run", of=OF), 1) == "over"


def test_a_refused_commit_changes_no_cap(world: World) -> None:
    node(world, cap=100)
    seen = world.record(OF)
    world.fire(OF, "configure", {"value": 1})
    decision = NODE.decide(seen, "configure", {"cap": 7})

    assert (world.commit(decision).status, decision.bounds) == (
        "conflict",
        {"spent": 7, "runs": None},
    )
    assert cap(world) == 100


def test_only_a_row_that_bounds_decides_of_bounds() -> None:
    fresh = Record(RecordId(OF), "node", "open", Version(1), {"cap": 5, "runs": 3})

    assert NODE.decide(fresh, "configure", {"runs": 4}).bounds == {"spent": 5, "runs": 4}
    assert NODE.decide(fresh, "activate", {}).bounds == UNBOUND


def test_what_a_family_sums_is_counted_at_every_ancestor(world: World) -> None:
    world.create("g", machine="root")
    node(world)
    deltas = {"spent": 5, "time_ms": 70, "runs": 1, "tokens": 9}
    world.note(OF, deltas=deltas, op="one")
    world.fire(OF, "activate", deltas=deltas)

    twice = {name: 2 * amount for name, amount in deltas.items()}
    assert {name: world.counter(name, OF) for name in deltas} == twice
    for of in (OF, "g"):
        assert {name: world.counter(f"tree.{name}", of) for name in deltas} == twice
    assert {name: world.counter(name, "g") for name in deltas} == dict.fromkeys(deltas, 0)


def test_sixteen_that_race_for_five_runs_never_begin_more_than_five(world: World) -> None:
    every = ready(world, "abcdefghijklmnop", runs=5)
    assert len(every) == RACERS
    line = Barrier(RACERS)

    def begins(of: str) -> bool:
        line.wait(180)
        return start(world, of)

    with ThreadPoolExecutor(RACERS) as pool:
        began = list(pool.map(begins, every))

    assert sum(began) == 5
    assert (world.counter("tree.runs", "g"), most(world, "g")) == (5, 5)
    states = [world.record(of).state for of in every]
    assert states == ["running" if one else "ready" for one in began]


def test_a_raised_bound_lets_more_run(world: World) -> None:
    every = ready(world, "abcd", runs=1)
    assert [start(world, of) for of in every] == [True, False, False, False]
    world.fire("g", "configure", {"runs": 3})

    assert most(world, "g") == 3
    assert [start(world, of) for of in every[1:]] == [True, True, False]


def test_a_bound_below_what_is_used_lets_nothing_begin_and_all_else_go_on(world: World) -> None:
    first, second, third = ready(world, "abc", runs=2)
    assert start(world, first)
    assert start(world, second)
    world.fire("g", "configure", {"runs": 1})

    assert not start(world, third)
    world.fire(first, "poke", {"value": 1})
    world.fire(first, "finish", deltas={"spent": 5, "time_ms": 9})
    world.fire(second, "lose", deltas={"runs": -1})
    assert world.counter("tree.runs", "g") == 1
    assert not start(world, second)


def test_whichever_of_the_chain_has_the_fewest_runs_left_is_what_binds(world: World) -> None:
    world.create("g", {"runs": 3}, machine="root")
    own = node(world, "activate", runs=1)
    free = node(world, "activate", of="g/b")
    assert (most(world, own), most(world, free), most(world, "g")) == (1, None, 3)
    assert start(world, own)
    world.fire(own, "lose")
    assert not start(world, own), "its own bound"

    for _ in range(2):
        assert start(world, free)
        world.fire(free, "lose")
    assert not start(world, free), "that of what it is under"


def test_so_many_runs_as_are_asked_for_must_be_left(world: World) -> None:
    (one,) = ready(world, "a", runs=3)
    assert not start(world, one, 4)

    assert start(world, one, 3)


def test_a_run_that_is_given_back_is_anothers(world: World) -> None:
    first, second = ready(world, "ab", runs=1)
    assert start(world, first)
    assert not start(world, second)
    world.fire(first, "lose", deltas={"runs": -1})

    assert start(world, second)


def test_a_refused_run_changes_nothing_and_says_why(world: World) -> None:
    (one,) = ready(world, "a", runs=1)
    world.note(one, deltas={"runs": 1}, op="noted")
    before = world.dump()
    with pytest.raises(HeldError, match="no run left"):
        world.fire(one, "begin", deltas={"runs": 1})

    assert world.dump() == before
    world.note(one, deltas={"runs": 1}, op="also what is over is counted")
    assert world.counter("tree.runs", "g") == 2


def test_the_repeat_of_the_last_run_is_no_other_run(world: World) -> None:
    (one,) = ready(world, "a", runs=1)
    fired = [world.fire(one, "begin", op="once", deltas={"runs": 1}) for _ in range(2)]

    assert [answer.replayed for answer in fired] == [False, True]
    assert world.counter("tree.runs", "g") == 1


AT_REST, MOVING = ("configure", "activate", "slot"), ("met", "begin", "poke")


def shown_by(world: World) -> list[str]:
    """Return the versions of the commits whose mirror is owed."""
    suffixes = [e.suffix for e in world.record(OF).entries if e.name == "show"]
    return [suffix.partition(".")[0] for suffix in suffixes]


def test_whatever_changes_a_record_with_a_mirror_is_shown_once_it_rests(world: World) -> None:
    node(world)
    assert shown_by(world) == ["1"]
    for version, trigger in enumerate((*AT_REST, *MOVING), 2):
        fired = world.fire(OF, trigger, {"value": version} if trigger != "activate" else {})
        assert shown_by(world) == [str(version)], "the one before has nothing more to show"
        published = [message.name for message in fired.owed].count("show")
        assert published == (trigger in AT_REST), f"{trigger}: the next commit comes soon"
    world.fire(OF, "cancel")

    assert shown_by(world) == ["8"]
    assert {e.kind for e in world.record(OF).entries if e.name == "show"} == {Kind.TRANSITION}


def test_a_record_that_does_not_move_on_soon_is_shown_by_a_sweep(world: World) -> None:
    node(world, "activate", "met", "begin")
    world.later(LIMITS.poll_ms)

    polled = [due.message.name for due in world.poll(OF).values() if due.status == "publish"]

    assert "show" in polled


def test_a_mirror_at_work_is_no_reason_to_leave_the_next_one_out(world: World) -> None:
    node(world)
    world.claim("show", of=OF)
    world.fire(OF, "configure", {"value": 2})

    assert sorted(shown_by(world)) == ["1", "2"]


def test_what_costs_is_shown_and_what_is_only_said_is_not(world: World) -> None:
    node(world, "activate")
    before = owed(world, "show")
    world.note(OF, "progress")
    assert owed(world, "show") == before
    for _ in range(2):
        world.note(OF, deltas={"spent": 5}, op="bill")

    assert owed(world, "show") == before + 1, "a repeat owes nothing"
    with pytest.raises(InvalidPayloadError):
        world.note(OF, deltas={"spent": 5})
    world.fire(OF, "cancel")
    world.note(OF, deltas={"spent": 5}, op="late")
    assert owed(world, "show") == 2, "also what comes after the end"


def test_a_refusal_and_a_repeat_show_nothing(world: World) -> None:
    node(world)
    for _ in range(2):
        world.fire(OF, "activate", op="once")
    world.create(OF, {}, machine="node")

    assert shown_by(world) == ["2"]


LEFT = {
    "a wait that is left": ("activate", "slot", "suspend"),
    "a wait that ends": ("activate", "slot", "cancel"),
    "work that ends": ("activate", "slot", "begin", "finish"),
    "work that is canceled": ("activate", "slot", "begin", "cancel"),
    "work that goes back to waiting without it": ("activate", "slot", "begin", "lose"),
}
KEPT = {
    "a wait without a slot": ("activate", "suspend"),
    "an end without a slot": ("activate", "begin", "finish"),
    "a slot that was noted": ("activate", "slot"),
    "a wait that begins again": ("activate", "slot", "met"),
    "work in the slot that was awaited": ("activate", "slot", "begin"),
    "work that stays at work": ("activate", "slot", "begin", "poke"),
}


@pytest.mark.parametrize(
    ("triggers", "frees"),
    [*((way, 1) for way in LEFT.values()), *((way, 0) for way in KEPT.values())],
    ids=[*LEFT, *KEPT],
)
def test_a_slot_is_freed_exactly_when_it_is_left(
    world: World, triggers: tuple[str, ...], frees: int
) -> None:
    node(world)
    for trigger in triggers:
        world.fire(OF, trigger, {"slot": "here"} if trigger == "slot" else {})

    assert owed(world, "free") == frees
    if frees:
        assert world.entry("free", OF).kind is Kind.TRANSITION


def test_who_brings_a_waiting_record_further_is_owed_once_that_can_be_done(world: World) -> None:
    node(world, "activate")
    assert owed(world, "start") == 0
    world.fire(OF, "met")

    assert owed(world, "start") == 1


@pytest.mark.parametrize("end", ["finish", "cancel"])
def test_an_end_owes_its_tell_beside_what_leaving_owes(world: World, end: str) -> None:
    node(world, "activate", "begin")
    world.subscriptions.subscribe(OF, Subscriber(RecordId("h/w"), "", "node", 5))
    fired = world.fire(OF, end)

    assert [message.name for message in fired.owed] == ["show", "notification"]
    assert {one.key for one in fired.owed} <= {one.key(OF) for one in world.record(OF).entries}


def test_every_effect_that_is_declared_is_known_by_name() -> None:
    declared = {"register", "start", "run", "free", "show", "notification"}

    assert set(NODE.effects) == declared | {"cascade"}, "it has an advance"


def test_a_mirror_that_a_person_is_asked_about_is_not_replaced(world: World) -> None:
    node(world)
    world.leases.release(world.claim("show", of=OF), delay_ms=1, counted=True, asks=True)
    world.fire(OF, "configure", {"value": 2})

    assert sorted(shown_by(world)) == ["1", "2"]
    assert world.waits(OF)


def test_what_is_shown_late_sends_no_message_of_another_effect(world: World) -> None:
    world.lifecycle.render = lambda message: (world.keys.prefix + "q", message.key.encode())
    node(world, "activate", "met", "begin")
    key = world.key("run", OF).encode()

    assert world.list_of(world.keys.prefix + "q").count(key) == 1
