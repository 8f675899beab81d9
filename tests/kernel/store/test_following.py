"""Rows that follow from the data alone are taken in the commit that enters their state."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from interlock.kernel.effect import CASCADE
from interlock.kernel.errors import HeldError, MissedError
from interlock.kernel.event import Event
from interlock.kernel.fired import Fired
from interlock.kernel.following import HOPS_MAX
from interlock.kernel.machine import Machine
from interlock.kernel.record import Record
from interlock.kernel.rows import by
from interlock.kernel.store.feed import Feed
from interlock.kernel.store.fold import fold, sums
from interlock.kernel.store.metrics import MetricsReader
from interlock.kernel.store.scripts import read
from interlock.kernel.traits import Bookkeeping
from tests.kernel.store.kernel_at_a_fixed_time import ACTOR, World, token
from tests.kernel.store.machines_families import ORDER
from tests.kernel.store.machines_families import S as O
from tests.kernel.store.machines_following import FOLLOWING, RECHECK_MS, STALL_MS, S, T


def begun(world: World, **data: Any) -> Fired:
    return world.lifecycle.create("following", "r", data, ACTOR, begins=True)


def at_work(world: World, **data: Any) -> Record:
    begun(world, **data)
    world.later(1_000)
    return world.record()


def made(world: World, **data: Any) -> Fired:
    at_work(world, **data)
    lease = world.claim("maker")
    return world.fire("r", "made", {"value": "x"}, warrant=token(lease), op="made")


def events(world: World) -> list[tuple[int, str, str, str, str]]:
    found = [line for line in world.views.history("r") if isinstance(line, Event)]
    return [(e.version, e.source, e.trigger, e.target, e.cause.actor) for e in found]


def owed(world: World) -> list[tuple[str, str]]:
    return sorted((e.name, e.suffix.partition(".")[0]) for e in world.record().entries)


def test_a_creation_and_what_follows_are_one_commit_with_an_event_each(world: World) -> None:
    fired = begun(world)

    assert fired.version == world.record().version == 3
    assert fired.record is not None
    assert fired.record.state == world.record().state == "making"
    assert events(world) == [
        (1, "", "created", "draft", "test"),
        (2, "draft", "begin", "ready", "test"),
        (3, "ready", "start", "making", "starter"),
    ]
    assert owed(world) == [("maker", "3")], "the states between owe nothing"
    (timer,) = world.record().timers
    assert (timer.name, timer.due_at) == ("stall", world.now + STALL_MS)


def test_what_the_data_do_not_decide_waits_for_its_effect(world: World) -> None:
    begun(world, waits=True)

    assert (world.record().state, world.record().version) == ("ready", 2)
    assert owed(world) == [("starter", "2")]
    (timer,) = world.record().timers
    assert (timer.name, timer.due_at) == ("recheck", world.now + RECHECK_MS)


def test_a_creation_that_does_not_begin_follows_nothing(world: World) -> None:
    world.create("r", {}, machine="following")

    assert (world.record().state, world.record().version) == ("draft", 1)


def test_a_repeated_creation_is_answered_with_the_record_as_it_is(world: World) -> None:
    begun(world)

    again = begun(world)

    assert (again.replayed, again.version) == (True, 3)
    assert len(events(world)) == 3


def test_an_outcome_and_what_follows_are_one_commit(world: World) -> None:
    fired = made(world, auto=True)

    assert (fired.version, world.record().state) == (5, "done")
    assert events(world)[3:] == [
        (4, "making", "made", "checking", "test"),
        (5, "checking", "approve", "done", "signer"),
    ]
    # The row's own effect, and that of the end. Nobody is shown a card that was never open.
    assert owed(world) == [("messenger", "5"), ("signer", "5")]
    assert world.record().title == "Work x"
    assert not world.client.zscore(world.keys.waits(world.partition()), "r")


def test_its_outcome_is_known_by_its_op_id_as_one(world: World) -> None:
    made(world, auto=True)

    again = world.fire("r", "made", {"value": "x"}, op="made")

    assert (again.replayed, again.version) == (True, 5)


def test_a_person_decides_what_the_data_do_not(world: World) -> None:
    made(world)

    assert (world.record().state, world.record().version) == ("checking", 4)
    assert owed(world) == [("messenger", "4"), ("signer", "4")]


def test_it_follows_from_its_log_event_by_event(world: World) -> None:
    made(world, auto=True)
    lines = world.views.history("r")

    folded = fold(FOLLOWING, lines)

    assert (folded.state, folded.version, folded.data) == ("done", 5, world.record().data)
    assert sums(lines) == {"made": 1}
    assert world.record().counters["made"] == 1


def test_each_transition_is_listed_and_counted(world: World) -> None:
    feed = Feed(world.client, world.keys)
    begin = feed.newest()
    made(world, auto=True)

    found = feed.after([begin])[begin]
    assert not isinstance(found, MissedError)
    assert [one.version for one in found] == [1, 2, 3, 4, 5]
    counted = MetricsReader(world.client, world.keys).read()
    assert counted.transitions == {
        ("following", "-", "draft"): 1,
        ("following", "draft", "ready"): 1,
        ("following", "ready", "making"): 1,
        ("following", "making", "checking"): 1,
        ("following", "checking", "done"): 1,
    }
    assert counted.dwell["following", "making"].sum_ms == 1_000
    for passed in ("draft", "ready", "checking"):
        dwell = counted.dwell["following", passed]
        assert (dwell.buckets[0], dwell.sum_ms) == (1, 0), passed


def test_a_circle_of_rows_ends_after_some_and_goes_on_by_its_effect(world: World) -> None:
    begun(world, spins=True)

    assert world.record().version == 2 + HOPS_MAX
    assert (world.record().state, owed(world)) == ("ready", [("starter", str(2 + HOPS_MAX))])


def holding() -> Machine:
    """Let the row that follows take a name."""
    stages = (
        replace(stage, holds=lambda _: ("name",)) if stage.state is S.MAKING else stage
        for stage in FOLLOWING.stages
    )
    return replace(FOLLOWING, stages=tuple(stages))


def running() -> Machine:
    """Let the row that follows count a run."""
    rows = (
        replace(row, update=lambda ask: {**ask.data, "runs": 1}) if row.trigger is T.START else row
        for row in FOLLOWING.transitions
    )
    counted = Bookkeeping(counters=lambda data: {"runs": data.get("runs", 0)})
    return replace(FOLLOWING, transitions=tuple(rows), bookkeeping=counted)


@pytest.mark.parametrize("machine", [holding(), running()], ids=["a name", "a run"])
def test_a_row_that_the_store_may_refuse_is_left_to_its_effect(
    world: World, machine: Machine
) -> None:
    world.lifecycle.machines = {**world.lifecycle.machines, "following": machine}
    world.create("r", {}, machine="following", bounds={"runs": 0})
    world.client.hset(world.keys.holds("r"), "name", "other")

    fired = world.fire("r", "begin")

    assert (fired.version, world.record().state) == (2, "ready"), "what has happened is committed"
    assert owed(world) == [("starter", "2")]
    with pytest.raises(HeldError):
        world.fire("r", "start", warrant=token(world.claim("starter")))


def test_a_row_that_creates_children_is_left_to_its_effect(world: World) -> None:
    rows = (
        replace(row, by=by(CASCADE), follows=lambda _: {}) if row.source is O.MENDING else row
        for row in ORDER.transitions
    )
    machine = replace(ORDER, transitions=tuple(rows))
    world.lifecycle.machines = {**world.lifecycle.machines, "order": machine}
    world.create("r", {"name": "x", "parts": [{}]}, machine="order")
    world.fire("r", "split")

    world.fire("r", "mend")

    assert world.record().state == "mending", "what they are created from may be refused"


def test_a_creation_that_begins_with_children_holds_their_countdown_open(world: World) -> None:
    machine = replace(ORDER, first_trigger="split")
    world.lifecycle.machines = {**world.lifecycle.machines, "order": machine}
    world.lifecycle.create("order", "r", {"name": "x", "parts": [{}]}, ACTOR, begins=True)

    assert world.record().state == "parting"
    assert read(world.client, "SMEMBERS", world.keys.members("r", "parts:2")) == {b"*"}
