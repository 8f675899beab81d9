"""A family log lists what was committed, in the order of commits, and nothing else."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from interlock.kernel.errors import (
    CallError,
    ClosedParentError,
    FencedError,
    HeldError,
    IdTakenError,
)
from interlock.kernel.store import commands as plan
from interlock.kernel.store.commands import Warrant
from tests.kernel.samples import RUN_BIRTH
from tests.kernel.store.kernel_at_a_fixed_time import World
from tests.kernel.store.machines_runs import (
    CODON,
    DATA,
    EVENTS,
    HOLDER,
    RUN,
    begun,
    codon,
    complete,
    fail,
    listed,
    logged,
    move,
    run,
    tell,
    workspace,
)

WRITERS, EACH = 6, 12


def test_births_and_commits_are_listed_in_the_order_in_which_they_came(world: World) -> None:
    begun(world, "starting")
    tell(world, "InitialCheckpointSet", RUN, sha="abc")
    move(world, "failed")
    codon(world, "data/1/2")
    fail(world)

    expected = [(RUN, 1), (CODON, 1), (CODON, 2), (RUN, 2), (CODON, 3), ("data/1/2", 1), (RUN, 3)]
    assert listed(world) == expected
    assert [(event.record_id, event.version) for event in logged(world)] == expected
    assert [event.trigger for event in logged(world)] == [
        "created",
        "created",
        "start",
        "initial_checkpoint_set",
        "fail",
        "created",
        "fail",
    ]


def test_a_family_log_is_read_on_from_any_position_and_page_by_page(world: World) -> None:
    begun(world)
    rows = world.views.family_log(DATA, "0-0", 100)
    assert len(rows) == 5

    for number, (position, _, _) in enumerate(rows):
        assert world.views.family_log(DATA, position, 100) == rows[number + 1 :]
        assert world.views.family_log(DATA, position, 2) == rows[number + 1 : number + 3]
    assert world.views.family_log("elsewhere", "0-0", 100) == []


def test_events_that_are_gone_are_left_out(world: World) -> None:
    begun(world)
    asked = listed(world)
    world.client.unlink(world.keys.log(CODON))

    assert [(event.record_id, event.version) for event in world.views.events(asked)] == [(RUN, 1)]
    assert world.views.events([]) == []


def test_a_family_has_its_own_log_and_who_needs_none_has_none(world: World) -> None:
    begun(world)
    before = listed(world)
    workspace(world, "other")
    run(world, "other/1")
    world.at("working")

    assert listed(world) == before
    assert listed(world, "other") == [("other/1", 1)]
    kinds = {key.decode().rpartition("}:")[2] for key in world.dump()}
    assert {one for one in kinds if one.startswith("family-log")} == {
        "family-log:data",
        "family-log:other",
    }


def test_a_repeat_and_a_refusal_add_nothing(world: World) -> None:
    begun(world)
    tell(world, "CostsIncremented", op="once", cost_delta=5)
    before = listed(world)

    assert world.create(RUN, RUN_BIRTH, machine="run").replayed
    assert world.create(
        CODON, {"codon_id": "clean"}, machine="codon", initial_lease=HOLDER
    ).replayed
    assert tell(world, "CostsIncremented", op="once", cost_delta=5).replayed
    with pytest.raises(IdTakenError):
        world.create(RUN, {**RUN_BIRTH, "folder": "/other"}, machine="run")
    with pytest.raises(HeldError):
        run(world, "data/2")
    with pytest.raises(ClosedParentError):
        run(world, "nowhere/1")
    with pytest.raises(CallError):
        tell(world, "CodonTransitioned", **{"from": "running", "to": "starting"})
    with pytest.raises(FencedError):
        world.fire(
            CODON, "costs_incremented", {"cost_delta": 1}, warrant=Warrant.token("1.0:x", "7")
        )
    stale = world.record(CODON)
    tell(world, "CostsIncremented", cost_delta=5)
    machine = world.lifecycle.machine("codon")
    decision = machine.decide(stale, "costs_updated", {"cost": 1, "tokens": {}})
    assert world.commit(decision, EVENTS).status == "conflict"

    assert listed(world) == [*before, (CODON, stale.version + 1)]


def test_a_note_is_no_commit(world: World) -> None:
    begun(world)
    before = listed(world)

    world.note(CODON, "seen")
    world.flag("pause", CODON)
    world.flag("resume", CODON)

    assert listed(world) == before


def test_writers_that_race_are_listed_in_the_order_of_their_commits(world: World) -> None:
    world.text.now_us = None
    begun(world)
    start = Barrier(WRITERS)

    def write(writer: int) -> None:
        start.wait()
        for number in range(EACH):
            op = f"{writer}-{number}"
            if writer % 3 == 0:
                tell(world, "InitialCheckpointSet", RUN, op=op, sha=op)
            else:
                tell(world, "CostsIncremented", op=op, cost_delta=1)

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(write, range(WRITERS)))
    move(world, "completed")
    complete(world)

    rows = listed(world)
    for of in (RUN, CODON):
        versions = [version for one, version in rows if one == of]
        assert versions == list(range(1, world.record(of).version + 1))
    times = [event.at_ms for event in logged(world)]
    assert times == sorted(times), "the order of commits"
    assert len(times) == len(rows) == 2 + 3 + WRITERS * EACH + 2


def test_a_family_log_goes_back_a_bounded_number_of_commits(world: World) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "FAMILY_LOG_MIN", 30)
        begun(world)
        for cost in range(250):
            tell(world, "CostsUpdated", cost=cost)

    rows = listed(world)
    last = world.record(CODON).version
    assert rows[-1] == (CODON, last)
    assert rows == [(CODON, last - n) for n in reversed(range(len(rows)))], "the newest are kept"
    # The store trims whole blocks of a hundred.
    assert 30 <= len(rows) <= 130
    assert len(world.events(CODON)) == last, "a log is not trimmed with it"
