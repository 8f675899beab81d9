"""Runs and codons are created one at a time, where they can go on, and leave nothing behind."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import permutations
from threading import Barrier
from typing import Any

import pytest

from interlock.kernel.errors import ClosedParentError, HeldError, InvalidIdError, MailRefusedError
from interlock.kernel.store.commands import Warrant
from tests.kernel.samples import RUN_BIRTH
from tests.kernel.store.kernel_at_a_fixed_time import World
from tests.kernel.store.machines_runs import (
    CODON,
    DATA,
    HOLDER,
    RUN,
    begun,
    codon,
    complete,
    fail,
    listed,
    move,
    run,
    settle,
    tell,
    workspace,
)

RACERS, ROUNDS = 5, 12


def closed(world: World, of: str = DATA) -> None:
    world.fire(of, "close", {"reason": "done with it"})


def test_no_codon_is_born_in_a_run_that_has_ended(world: World) -> None:
    workspace(world)
    for number, end in enumerate((complete, fail), start=1):
        run(world, f"data/{number}")
        end(world, f"data/{number}")
        before = world.dump()
        with pytest.raises(ClosedParentError, match=f"'data/{number}' accepts no more"):
            codon(world, f"data/{number}/1")
        assert world.dump() == before


def test_no_run_is_born_in_a_workspace_that_is_closed(world: World) -> None:
    closed(world, workspace(world))
    before = world.dump()

    with pytest.raises(ClosedParentError, match="'data' accepts no more"):
        run(world)

    assert world.dump() == before


def test_nothing_is_born_within_what_does_not_exist(world: World) -> None:
    with pytest.raises(ClosedParentError):
        run(world)
    assert world.dump() == {}

    workspace(world)
    before = world.dump()
    with pytest.raises(ClosedParentError):
        codon(world, "data/7/1")
    assert world.dump() == before


def test_a_birth_that_is_repeated_after_the_end_gets_its_first_answer(world: World) -> None:
    begun(world)
    move(world, "completed")
    complete(world)
    closed(world)

    assert world.create(RUN, RUN_BIRTH, machine="run").replayed
    assert world.create(
        CODON, {"codon_id": "clean"}, machine="codon", initial_lease=HOLDER
    ).replayed


def test_only_what_is_right_above_is_asked(world: World) -> None:
    workspace(world)
    run(world)
    closed(world)

    codon(world)

    assert world.record(CODON).state == "preparing"


@pytest.mark.parametrize(
    ("machine", "wrong"),
    [
        ("run", ("data", "data/0", "data/one", "data/01", "data/1/1")),
        ("codon", ("data", "data/1", "data/1/1/1")),
        ("workspace", ("data/1",)),
    ],
)
def test_an_id_says_where_it_belongs(world: World, machine: str, wrong: tuple[str, ...]) -> None:
    births: dict[str, dict[str, Any]] = {
        "run": RUN_BIRTH,
        "codon": {"codon_id": "clean"},
        "workspace": {"folder": "/data"},
    }
    initial_lease = HOLDER if machine == "codon" else None
    for of in wrong:
        with pytest.raises(InvalidIdError):
            world.create(of, births[machine], machine=machine, initial_lease=initial_lease)
    assert world.dump() == {}


def test_a_codon_is_held_from_its_birth_and_never_published(world: World) -> None:
    workspace(world)
    run(world)
    with pytest.raises(HeldError, match="its step needs a holder from the start"):
        world.create(CODON, {"codon_id": "clean"}, machine="codon")
    codon(world)
    entry = world.entry("step", CODON)
    assert (entry.state, entry.holder) == ("leased", "here")

    for state in ("starting", "initializing", "running", "completing_sentinels"):
        move(world, state)
        held = world.entry("step", CODON)
        assert (held.state, held.token) == ("leased", entry.token), "it is carried along"
    move(world, "completed")
    assert world.state_of("step", CODON) == "draining", "who holds it may still clear up"


def race(*acts: Callable[[], object]) -> list[BaseException | None]:
    """Do all at once; return what each met."""
    start = Barrier(len(acts))

    def met(act: Callable[[], object]) -> BaseException | None:
        start.wait()
        try:
            act()
        except (ClosedParentError, HeldError) as refusal:
            return refusal
        return None

    with ThreadPoolExecutor(len(acts)) as pool:
        return list(pool.map(met, acts))


def test_no_codon_is_born_after_its_runs_end_whatever_the_race(world: World) -> None:
    workspace(world)
    for number in range(1, ROUNDS + 1):
        of = run(world, f"data/{number}")
        births = [partial(codon, world, f"{of}/{n}") for n in range(1, RACERS)]
        ends = partial(world.fire, world.record(of), "fail", op=f"end-{number}")
        # Where the end stands among them is another each time; once in a while it comes before all.
        place = number % RACERS
        if not place:
            ends()
        race(*births[:place], *([ends] if place else []), *births[place:])

        rows = [one for one, _ in listed(world) if one.startswith(of)]
        assert rows[-1] == of, "the end is the last that its family log lists"
        alive = world.views.holds(DATA)
        assert len(alive) <= 1
        for one in alive.values():
            world.fire(
                one, "run_ended", {"reason": "over"}, warrant=Warrant.component("codon_cleanup")
            )


def test_one_run_at_a_time_is_at_work_in_a_workspace(world: World) -> None:
    workspace(world)
    run(world)
    before = world.dump()
    with pytest.raises(HeldError, match=r"data/1 holds what it needs"):
        run(world, "data/2")
    assert world.dump() == before

    fail(world)
    run(world, "data/2")
    assert world.views.holds(DATA) == {"run": "data/2"}
    workspace(world, "other")
    run(world, "other/1")


def test_one_codon_at_a_time_is_alive_in_a_workspace(world: World) -> None:
    begun(world)
    for state in ("running", "completing_sentinels"):
        if state != "running":
            move(world, state)
        with pytest.raises(HeldError, match=r"data/1/1 holds what it needs"):
            codon(world, "data/1/2")
    fail(world)
    run(world, "data/2")
    with pytest.raises(HeldError, match=r"data/1/1 holds what it needs"):
        codon(world, "data/2/1")

    world.fire(CODON, "run_ended", {}, warrant=Warrant.component("codon_cleanup"))

    codon(world, "data/2/1")
    assert world.views.holds(DATA) == {"run": "data/2", "codon": "data/2/1"}


@pytest.mark.parametrize("end", ["completed", "failed", "skipped"])
def test_a_codon_that_ends_makes_room(world: World, end: str) -> None:
    begun(world)
    move(world, end)
    codon(world, "data/1/2")
    assert world.views.holds(DATA) == {"run": RUN, "codon": "data/1/2"}


def test_of_runs_that_begin_side_by_side_one_begins(world: World) -> None:
    workspace(world)
    for first in range(1, 4 * RACERS, RACERS):
        met = race(
            *(partial(run, world, f"data/{n}") for n in range(first, first + RACERS)),
        )
        assert met.count(None) == 1
        assert all(isinstance(one, HeldError) for one in met if one)
        (winner,) = world.views.holds(DATA).values()
        fail(world, winner)


def left(world: World) -> list[str]:
    """Return the names of all keys of records, without the parts that differ between tests."""
    names = (key.decode().rpartition("}:")[2] for key in world.dump())
    return sorted(name for name in names if name != "feed")


def post(world: World, op: str) -> None:
    """Tell a workspace's inbox of an event."""
    said = {"type": "RunCompleted", "data": {"run_id": "1"}}
    world.lifecycle.post(DATA, {"sender": "tool", "event": said}, op)


def over(world: World) -> list[str]:
    """Let a workspace have all that it can have, end all of it, and return what it is made of."""
    begun(world)
    tell(world, "CostsIncremented", cost_delta=5)
    for number in range(3):
        post(world, f"post-{number}")
    move(world, "skipped")
    codon(world, "data/1/2")
    move(world, "failed", "data/1/2")
    complete(world)
    run(world, "data/2")
    fail(world, "data/2")
    closed(world)
    family = ["data/1/2", CODON, "data/2", RUN, DATA]
    for of in family:
        settle(world, of)
    return family


def test_nothing_is_left_of_a_closed_workspace_in_whatever_order_it_is_forgotten(
    world: World,
) -> None:
    for order in list(permutations(range(5)))[::24]:
        family = over(world)
        records = {of: world.record(of) for of in family}
        for of in (family[n] for n in order):
            assert world.indexes.prune(records[of], [], age_ms=0, last=of == DATA) == "pruned"

        assert left(world) == sorted(f"x:{of}" for of in family), "tombstones, and nothing else"
        world.client.unlink(*world.dump())


def test_a_family_log_stays_while_a_run_of_it_is_remembered(world: World) -> None:
    over(world)
    before = listed(world)
    for of in (CODON, "data/1/2", RUN):
        assert world.indexes.prune(world.record(of), [], age_ms=0) == "pruned"
    assert listed(world) == before
    with pytest.raises(MailRefusedError, match="it is closed"):
        post(world, "late")


def test_what_is_shared_stays_while_a_run_is_at_work(world: World) -> None:
    begun(world)
    closed(world)
    settle(world, DATA)

    world.indexes.prune(world.record(DATA), [], age_ms=0, last=True)

    assert listed(world)[-1:] == [(CODON, 4)]
    move(world, "completed")
    assert listed(world)[-1:] == [(CODON, 5)]
