"""What a family shares: queues and held names; initial leases; members counted as ended early."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from interlock.kernel.errors import HeldError, InvalidIdError, UnknownRecordError
from interlock.kernel.store import scripts
from interlock.kernel.store.commands import InitialLease, Warrant
from interlock.kernel.store.leases import Lease
from interlock.kernel.store.owed import OwedReader
from interlock.kernel.store.repairs import Repairs
from tests.kernel.store.kernel_at_a_fixed_time import World, token
from tests.kernel.store.tables import GRACE_MS, LEASE_MS

MINE = InitialLease("mine", "fleet:1", LEASE_MS)
DELAY_MS = 60_000
OFFER_MS = 30_000


def ticket(world: World, name: str = "a", **given: Any) -> str:
    payload = {key: value for key, value in given.items() if key != "priority"}
    of = f"b/{name}"
    world.create(of, payload, machine="ticket", priority=given.get("priority", 5))
    return of


def take(world: World, of: str, initial_lease: InitialLease | None = MINE) -> Lease:
    """Take a ticket, and get hold of what was leased with it."""
    world.fire(of, "take", initial_lease=initial_lease)
    return world.claim("handle", "mine", of)


def settled(world: World, of: str) -> None:
    """Settle the offers of a ticket, which would be due."""
    for entry in world.record(of).entries:
        if entry.name == "offer":
            world.settle(world.claim("offer", of=of))


@pytest.mark.parametrize("bad", ["a", "b/a/c"])
def test_an_id_has_the_shape_that_its_machine_declares(world: World, bad: str) -> None:
    with pytest.raises(InvalidIdError, match="<backlog>/<ticket>"):
        world.create(bad, machine="ticket")
    with pytest.raises(InvalidIdError, match="leave out the /"):
        world.create("b/a")
    assert ticket(world) == "b/a"


def test_a_family_without_a_record_at_its_root_is_pruned_record_by_record(world: World) -> None:
    of = ticket(world)
    for trigger in ("take", "finish", "merged"):
        world.fire(of, trigger)

    assert world.indexes.ended(world.partition(of), world.now, 10) == [of]


def test_records_stand_in_line_by_priority_then_age(world: World) -> None:
    for name, priority in (("late", 5), ("urgent", 0), ("least", 9)):
        ticket(world, name, priority=priority)
        world.later(1)
    ticket(world, "later", priority=5)

    assert world.views.queue("b", "any", 0, 10) == ["b/urgent", "b/late", "b/later", "b/least"]
    assert world.views.queue("b", "any", 1, 2) == ["b/late", "b/later"]
    assert world.views.queue("other", "any", 0, 10) == []


def test_a_line_has_a_name_and_is_forgotten_when_it_is_empty(world: World) -> None:
    painter, writer = ticket(world, "p", role="painter"), ticket(world, "w", role="writer")

    assert world.views.queues("b") == ["painter", "writer"]
    assert world.views.queue("b", "painter", 0, 10) == [painter]
    world.fire(painter, "take")
    assert world.views.queues("b") == ["writer"]
    assert world.views.queue("b", "painter", 0, 10) == []
    assert world.views.queue("b", "writer", 0, 10) == [writer]


def test_who_comes_back_keeps_its_age(world: World) -> None:
    first = ticket(world, "first")
    world.later(10)
    second = ticket(world, "second")
    world.later(10)
    world.fire(first, "take")
    world.fire(first, "drop")

    assert world.views.queue("b", "any", 0, 10) == [first, second]


def test_an_offer_is_owed_whenever_a_line_is_entered(world: World) -> None:
    of = ticket(world)
    settled(world, of)
    assert world.state_of("offer", of) == "gone"
    world.fire(of, "take")
    world.fire(of, "drop")

    assert world.state_of("offer", of) == "owed"


@pytest.mark.parametrize(
    ("held", "wanted", "refused"),
    [
        ("src/a.py", "src/a.py", True),
        ("src", "src/a.py", True),
        ("src/a.py", "src", True),
        ("src/a.py", "src/a.pyc", False),
        ("src/a", "src/ab", False),
        ("src", "srcs/a.py", False),
    ],
)
def test_a_name_is_held_by_one_with_all_that_is_below_it(
    world: World, held: str, wanted: str, *, refused: bool
) -> None:
    one, two = ticket(world, "one", files=[held]), ticket(world, "two", files=["doc", wanted])
    world.fire(one, "take")
    assert world.views.holds("b") == {held: one}
    if not refused:
        world.fire(two, "take")
        return
    before = world.dump()
    with pytest.raises(HeldError, match="'b/two' cannot be taken now: b/one holds"):
        world.fire(two, "take")

    assert world.dump() == before
    world.fire(one, "fail")
    world.fire(two, "take")
    assert world.views.holds("b") == {wanted: two, "doc": two}


def wait_for(world: World, of: str) -> str:
    """Try to take a held name as the holder of an effect, and wait for it; return the effect."""
    lease = world.claim("offer", of=of)
    with pytest.raises(HeldError) as refusal:
        world.fire(of, "take", warrant=token(lease))
    assert refusal.value.needs == ("x",)
    world.leases.release(lease, delay_ms=DELAY_MS, counted=False, needs=refusal.value.needs)
    entry = world.entry("offer", of)
    assert (entry.state, entry.attempts) == ("owed", 0)
    world.later(1)
    return lease.key


def test_who_waits_for_a_held_name_gets_it_first_come_first_served(world: World) -> None:
    every = {name: ticket(world, name, files=["x"]) for name in ("one", "two", "three", "four")}
    world.fire(every["one"], "take")
    second, third = wait_for(world, every["two"]), wait_for(world, every["three"])
    assert wait_for(world, every["two"]) == second
    assert world.score(third) != world.now
    owed = [one.key for one in OwedReader(world.client, world.keys).oldest()]
    assert not {second, third} & {*owed}, "what waits for a name waits for no worker"
    world.fire(every["one"], "fail")

    assert (world.score(second), world.views.holds("b")) == (world.now, {})
    with pytest.raises(HeldError, match="b/two holds"):
        world.fire(every["four"], "take")
    with pytest.raises(HeldError, match="b/two holds"):
        world.fire(every["three"], "take", warrant=token(world.claim("offer", of=every["three"])))
    lease = world.claim("offer", of=every["two"])
    world.fire(every["two"], "take", warrant=token(lease))
    world.fire(every["two"], "fail")
    assert world.views.holds("b") == {}


def test_who_does_not_come_for_an_offered_name_loses_its_place(world: World) -> None:
    every = {name: ticket(world, name, files=["x"]) for name in ("one", "two", "three", "four")}
    world.fire(every["one"], "take")
    second, third = wait_for(world, every["two"]), wait_for(world, every["three"])
    world.fire(every["one"], "fail")
    world.later(OFFER_MS - 1)
    with pytest.raises(HeldError, match="b/two holds"):
        world.fire(every["four"], "take")
    world.later(1)
    world.fire(every["four"], "take")
    world.fire(every["four"], "fail")

    assert world.score(third) == world.now
    assert world.score(second) != world.now
    world.fire(every["three"], "take")
    world.fire(every["three"], "fail")
    assert not [key for key in world.dump() if b"hold-queue" in key]


def test_an_offer_from_before_the_clock_was_set_back_keeps_nobody_from_a_name(world: World) -> None:
    every = {name: ticket(world, name, files=["x"]) for name in ("one", "two", "three")}
    world.fire(every["one"], "take")
    wait_for(world, every["two"])
    world.fire(every["one"], "fail")
    world.flag("pause", every["two"])
    world.later(-OFFER_MS * 100)

    world.fire(every["three"], "take")
    assert world.views.holds("b") == {"x": every["three"]}


def test_a_name_is_not_offered_to_who_is_paused(world: World) -> None:
    every = {name: ticket(world, name, files=["x"]) for name in ("one", "two", "three")}
    world.fire(every["one"], "take")
    second, third = wait_for(world, every["two"]), wait_for(world, every["three"])
    world.flag("pause", every["two"])
    world.fire(every["one"], "fail")

    assert world.score(third) == world.now
    assert world.score(second) is None
    world.fire(every["three"], "take", warrant=token(world.claim("offer", of=every["three"])))


def test_a_name_is_offered_to_nobody_who_waits_for_another(world: World) -> None:
    other = ticket(world, "other", files=["y"])
    every = {name: ticket(world, name, files=["x"]) for name in ("one", "two")}
    for of in (other, every["one"]):
        world.fire(of, "take")
    second, queue = wait_for(world, every["two"]), world.keys.hold_queue("b")
    world.fire(other, "fail")

    assert world.score(second) != world.now
    assert scripts.read(world.client, "PTTL", queue) > DELAY_MS, "it is forgotten in the end"


def test_a_name_that_a_repair_frees_is_offered_too(world: World) -> None:
    of = ticket(world, "one", files=["x"])
    scripts.read(world.client, "HSET", world.keys.holds("b"), "x", "b/gone")
    waiting = wait_for(world, of)

    assert Repairs(world.client, world.keys).free("b", "x", "b/gone") == "freed"
    assert world.score(waiting) == world.now


def test_a_name_that_became_free_meanwhile_is_tried_at_once(world: World) -> None:
    one, two = ticket(world, "one", files=["x"]), ticket(world, "two", files=["x"])
    world.fire(one, "take")
    lease = world.claim("offer", of=two)
    with pytest.raises(HeldError) as refusal:
        world.fire(two, "take", warrant=token(lease))
    world.fire(one, "fail")
    world.leases.release(lease, delay_ms=DELAY_MS, counted=False, needs=refusal.value.needs)

    assert world.score(lease.key) == world.now


def test_names_are_kept_from_state_to_state_and_freed_with_the_last(world: World) -> None:
    of = ticket(world, files=["x", "y"])
    lease = take(world, of)
    world.fire(of, "start", warrant=token(lease))
    assert world.views.holds("b") == {"x": of, "y": of}
    world.fire(of, "finish", warrant=token(lease))

    assert world.views.holds("b") == {}


def test_a_row_that_stays_in_its_state_frees_and_takes_names_and_its_effect_goes_on(
    world: World,
) -> None:
    one, two = ticket(world, "one", files=["x"]), ticket(world, "two", files=["x"])
    lease = take(world, one)
    waiting = wait_for(world, two)

    world.fire(one, "lend", warrant=token(lease))
    assert (world.views.holds("b"), world.score(waiting)) == ({}, world.now)
    world.fire(two, "take", warrant=token(world.claim("offer", of=two)))
    with pytest.raises(HeldError, match="b/two holds") as refusal:
        world.fire(one, "regain", warrant=token(lease))
    assert refusal.value.needs == ("x",)
    world.fire(two, "fail")
    world.fire(one, "regain", warrant=token(lease))

    assert world.views.holds("b") == {"x": one}
    assert world.entry("handle", one).token == lease.token


def test_a_name_that_another_holds_by_now_is_not_freed(world: World) -> None:
    of = ticket(world, files=["x"])
    world.fire(of, "take")
    scripts.read(world.client, "HSET", world.keys.holds("b"), "x", "b/repaired")
    world.fire(of, "fail")

    assert world.views.holds("b") == {"x": "b/repaired"}


def test_names_of_other_families_are_strangers(world: World) -> None:
    world.create("c/a", {"files": ["x"]}, machine="ticket")
    of = ticket(world, files=["x"])
    world.fire("c/a", "take")
    world.fire(of, "take")

    assert (world.views.holds("b"), world.views.holds("c")) == ({"x": of}, {"x": "c/a"})


def test_who_takes_holds_the_work_before_anybody_hears_of_it(world: World) -> None:
    rung: list[str] = []
    world.lifecycle.render = lambda message: (world.keys.prefix + "q", message.key.encode())
    of = ticket(world)
    world.fire(of, "take", initial_lease=MINE, op="take")
    entry = world.entry("handle", of)
    rung = [message.decode() for message in world.list_of(world.keys.prefix + "q")]

    assert not [key for key in rung if key == entry.key(of)]
    assert (entry.state, entry.holder, entry.attempts) == ("leased", "fleet:1", 1)
    assert entry.lease_until == world.now + LEASE_MS
    assert world.score(entry.key(of)) == world.now + LEASE_MS
    assert world.refused(entry.key(of), "other") == "held"
    lease = world.claim("handle", "mine", of)
    assert lease.token == entry.token
    assert lease.attempt == 1
    assert [note.kind for note in world.notes(of)] == ["claim"]
    assert world.fire(of, "finish", warrant=token(lease)).version == 3


def test_the_token_of_who_takes_is_lower_than_the_next_though_the_clock_is_set_back(
    world: World,
) -> None:
    of = ticket(world)
    mine = take(world, of)
    world.later(-1_000)

    assert world.claim("offer", of=of).token_number > mine.token_number


def test_a_plain_publisher_is_not_told_of_what_is_held_from_birth(world: World) -> None:
    of = ticket(world)
    taken = world.fire(of, "take", initial_lease=MINE)
    world.fire(of, "drop")
    offered = world.fire(of, "take")

    assert taken.owed == ()
    assert [message.name for message in offered.owed] == ["handle"]


def test_only_the_work_of_the_state_is_held_by_who_takes(world: World) -> None:
    world.at("building")
    world.lifecycle.render = lambda message: (world.keys.prefix + "q", message.key.encode())
    world.fire("r", "again", initial_lease=MINE)

    assert world.list_of(world.keys.prefix + "q") == [world.key("clear").encode()]
    assert (world.state_of("build"), world.state_of("clear")) == ("leased", "owed")


def test_the_next_token_is_higher_than_that_of_an_initial_lease_by_any_clock(world: World) -> None:
    of = ticket(world)
    lease = take(world, of)
    world.later(-3_600_000)

    assert world.claim("offer", of=of).token_number == lease.token_number + 1


def test_the_message_of_another_effect_is_pushed_beside_a_lease(world: World) -> None:
    record = world.at("asking")
    world.lifecycle.render = lambda message: (world.keys.prefix + "q", message.key.encode())
    world.fire("r", "revise", warrant=Warrant.person(record.entered), initial_lease=MINE)
    entries = {entry.key("r"): entry.state for entry in world.record("r").entries}
    pushed = world.list_of(world.keys.prefix + "q")

    assert [name for name, state in entries.items() if state == "leased"] == [world.key("work")]
    assert [entries[key.decode()] for key in pushed] == ["owed"]


def test_a_taker_that_is_lost_gives_it_back(world: World) -> None:
    of = ticket(world)
    lease = take(world, of)
    settled(world, of)
    world.later(LEASE_MS)

    assert world.poll_status(lease.key) == "crash"


def test_nobody_takes_what_is_paused(world: World) -> None:
    of = ticket(world)
    world.flag("pause", of)

    with pytest.raises(HeldError, match="it is paused"):
        world.fire(of, "take", initial_lease=MINE)
    world.flag("resume", of)
    take(world, of)


def test_a_paused_record_is_not_given_a_lease_that_it_can_do_without(world: World) -> None:
    of = ticket(world)
    world.flag("pause", of)
    fired = world.fire(of, "take", initial_lease=replace(MINE, optional=True))

    assert (fired.lease, fired.owed, world.state_of("handle", of)) == (None, (), "owed")
    assert world.score(world.key("handle", of)) is None
    assert "handle" in [message.name for message in world.flag("resume", of).owed]


def test_a_commit_returns_the_lease_that_it_gave(world: World) -> None:
    of = ticket(world)
    fired = world.fire(of, "take", initial_lease=InitialLease("mine", "here", LEASE_MS))

    assert fired.lease == world.claim("handle", "mine", of)


def test_nobody_takes_a_place_that_somebody_may_still_be_in(world: World) -> None:
    of = ticket(world)
    lease = take(world, of)
    world.fire(of, "drop")
    with pytest.raises(HeldError, match="may not be free before"):
        world.fire(of, "take", initial_lease=InitialLease("next", "fleet:2", LEASE_MS))
    world.later(LEASE_MS + GRACE_MS)
    world.poll(of)
    world.fire(of, "take", initial_lease=InitialLease("next", "fleet:2", LEASE_MS))

    assert world.claim("handle", "next", of).token_number > lease.token_number


def test_a_record_can_be_born_in_the_hands_of_its_maker(world: World) -> None:
    world.create("b/s", machine="session", initial_lease=MINE)
    again = world.create("b/s", machine="session", initial_lease=MINE)

    assert again.replayed
    assert world.refused(world.key("handle", "b/s"), "other") == "held"
    assert world.claim("handle", "mine", "b/s").attempt == 1
    assert [note.kind for note in world.notes("b/s")] == ["claim"]


def test_a_record_that_needs_a_held_name_is_not_born(world: World) -> None:
    world.create("b/s", {"files": ["x"]}, machine="session")
    with pytest.raises(HeldError, match="b/s holds what it needs"):
        world.create("b/t", {"files": ["x"]}, machine="session")
    with pytest.raises(UnknownRecordError):
        world.record("b/t")
    world.fire("b/s", "finish")

    assert not world.create("b/t", {"files": ["x"]}, machine="session").replayed


def test_what_a_state_owes_may_depend_on_the_data(world: World) -> None:
    of = ticket(world)
    for trigger in ("take", "finish"):
        world.fire(of, trigger)
    assert world.state_of("check", of) == "owed"
    for trigger in ("checked", "take", "finish"):
        world.fire(of, trigger)

    assert (world.state_of("check", of), world.state_of("merge", of)) == ("gone", "owed")


def test_a_parent_stops_counting_what_will_not_come_to_an_end(world: World) -> None:
    spawn = world.split("p")
    for name, given_up in (("p/a", True), ("p/b", False)):
        payload = {"given_up": given_up}
        world.create(name, payload, machine="ticket", countdown="children:2")
    world.settle(spawn)
    for name in ("p/a", "p/b"):
        world.fire(name, "take")
        world.fire(name, "fail")

    assert world.counted("p") == {"p/b"}
    assert world.views.tally("p", "children:2") == {"lost": 1}
    for trigger in ("again", "take", "finish", "merged"):
        world.fire("p/a", trigger)
    assert world.views.tally("p", "children:2") == {"lost": 1}, "it is counted once"
    for trigger in ("again", "take", "finish", "merged"):
        world.fire("p/b", trigger)
    assert world.views.tally("p", "children:2") == {"lost": 1, "done": 1}
    assert world.state_of("cascade", "p") == "owed"


def test_a_line_is_listed_until_the_last_has_left_it(world: World) -> None:
    first, _ = ticket(world, "p", role="painter"), ticket(world, "q", role="painter")
    world.fire(first, "take")

    assert world.views.queues("b") == ["painter"]


def test_who_waits_for_a_name_since_the_same_moment_gets_it_by_the_id(world: World) -> None:
    every = {name: ticket(world, name, files=["x"]) for name in ("one", "z", "a")}
    world.fire(every["one"], "take")
    late, early = wait_for(world, every["z"]), ""
    world.later(-1)
    early = wait_for(world, every["a"])
    world.fire(every["one"], "fail")

    assert world.score(early) == world.now
    assert world.score(late) != world.now


def test_an_effect_waits_on_while_its_record_takes_no_name(world: World) -> None:
    holder, waiting = ticket(world, "one", files=["x"]), ticket(world, "two")
    world.fire(holder, "take")
    lease = world.claim("offer", of=waiting)
    world.leases.release(lease, delay_ms=DELAY_MS, counted=False, needs=["x"])
    world.fire(waiting, "take")
    world.fire(holder, "fail")

    assert world.score(lease.key) == world.now
