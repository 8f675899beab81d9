"""The health gate: an outage of the store or of the sweeps orphans nobody at once."""

from __future__ import annotations

import pytest

from interlock.kernel.errors import StoreFormatError
from interlock.kernel.store.format import FORMAT
from interlock.kernel.store.indexes import ServerCheck
from tests.kernel.store.kernel_at_a_fixed_time import World

PERIOD_MS, LEASE_MS = 1_000, 30_000


def meet(world: World, run: str = "one", *, passing: bool = True) -> ServerCheck:
    return world.indexes.identify_server(
        7, run_id=run, passing=passing, period_ms=PERIOD_MS, lease_ms=LEASE_MS
    )


def test_a_first_meeting_opens_the_gate_and_notes_the_format(world: World) -> None:
    assert meet(world).gate_open

    assert world.client.hget(world.keys.meta(7), "format") == str(FORMAT).encode()


def test_a_changed_server_is_noted_once_and_closes_the_gate_for_one_lease(world: World) -> None:
    first = meet(world)
    changed = [meet(world, "two").changed for _ in range(3)]
    assert changed == [True, False, False]
    later = meet(world, "two")
    assert later.incarnation != first.incarnation
    opened = []
    for _ in range(32):
        opened.append(meet(world, "two").gate_open)
        world.later(PERIOD_MS)

    assert opened == [False] * 30 + [True] * 2


def test_sweeps_that_stalled_give_holders_one_lease(world: World) -> None:
    meet(world)
    world.later(2 * PERIOD_MS)
    assert meet(world).gate_open
    world.later(2 * PERIOD_MS + 1)
    opened = []
    for _ in range(32):
        opened.append(meet(world).gate_open)
        world.later(PERIOD_MS)

    assert opened == [False] * 30 + [True] * 2


def test_sweeps_that_are_always_late_find_their_orphans_too(world: World) -> None:
    meet(world)
    opened = []
    for _ in range(40):
        world.later(5 * PERIOD_MS)
        opened.append(meet(world).gate_open)

    assert opened.count(True) >= 4


def test_a_client_that_connects_is_no_pass_of_the_sweep(world: World) -> None:
    meet(world)
    world.later(10 * PERIOD_MS)
    meet(world, passing=False)

    assert not meet(world).gate_open


def test_another_format_is_refused(world: World) -> None:
    meet(world)
    key = world.keys.meta(7)
    world.client.hset(key, "format", "99")

    with pytest.raises(StoreFormatError):
        meet(world)


def test_a_partition_keeps_its_incarnation_until_its_server_changes(world: World) -> None:
    first = [meet(world).incarnation for _ in range(2)]
    second = [meet(world, "two").incarnation for _ in range(2)]

    assert first[0] == first[1]
    assert second[0] == second[1]
    assert first[0] != second[0]


def test_a_script_finds_the_run_of_its_server_itself(world: World) -> None:
    assert meet(world, "").server == world.client.info("server")["run_id"]


def test_a_client_that_connects_changes_nothing_on_a_server_that_is_known(world: World) -> None:
    meet(world)
    world.later(10 * PERIOD_MS)
    before = world.dump()
    meet(world, passing=False)

    assert world.dump() == before
