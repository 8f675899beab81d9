"""A closed workspace is pruned with its runs and their codons, and no key of it is left."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import redis

from interlock.kernel.record import partition_of
from interlock.kernel.store.scripts import read
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.sweeps import prune
from interlock.workers.gateways.server import EmbeddedServer
from tests.kernel.store.kernel_at_a_fixed_time import Text, World
from tests.kernel.store.machines_runs import CODON, DATA, RUN, begun, complete, move, settle, tell
from tests.sweeping import sweeping
from tests.systems.threads.threads import client_of

ROUNDS_MAX = 6
LATER_MS = 3_600_000


@pytest.fixture
def world(client: redis.Redis, prefix: str) -> World:
    """Return the kernel under the store's own clock."""
    return World(client, prefix, Text(now_us=None))


@pytest.fixture
def dispatch(server: EmbeddedServer, prefix: str, tmp_path: Path) -> Dispatch:
    more = {"prune_after_s": 0.001, "archive": tmp_path / "archive"}
    return client_of(server.url, prefix, **more).dispatch


def prune_old(world: World, dispatch: Dispatch) -> Counter[str]:
    """Prune the partition of the workspace, as if all its records were old enough."""
    partition, key = partition_of(DATA), world.keys.ended_index(partition_of(DATA))
    for record_id in world.indexes.ended(partition, world.views.now_ms() + LATER_MS, 10):
        # Records that were postponed are due at once.
        read(world.client, "ZADD", key, 1, record_id)
    return prune.run(sweeping(dispatch), partition)


def keys_left(world: World) -> set[str]:
    """Return the keys of records that are left, without tombstones."""
    names = {key.decode().rpartition("}:")[2] for key in world.dump()}
    return {name for name in names if not name.startswith("x:")} - {"feed", "meta"}


def close(world: World) -> None:
    world.fire(DATA, "close", {})
    settle(world, DATA)


def test_an_ended_run_of_an_open_workspace_stays(world: World, dispatch: Dispatch) -> None:
    begun(world)
    move(world, "completed")
    complete(world)
    for record_id in (CODON, RUN):
        settle(world, record_id)

    assert prune_old(world, dispatch) == Counter(busy=2)

    assert world.indexes.ended(partition_of(DATA), 1, 10) == [], "they hide no other family"
    assert world.record(CODON).state == "completed"


def test_a_closed_workspace_goes_with_all_that_was_of_it(
    world: World, dispatch: Dispatch, tmp_path: Path
) -> None:
    begun(world)
    tell(world, "CostsIncremented", cost_delta=5)
    move(world, "completed")
    complete(world)
    for record_id in (CODON, RUN):
        settle(world, record_id)
    close(world)

    assert prune_all(world, dispatch) == set()
    kept = sorted(path.stem for path in tmp_path.joinpath("archive").rglob("*.jsonl"))
    assert kept == ["1", "1", "data"]


def test_a_run_of_a_closed_workspace_may_go_first_and_leaves_what_they_share(
    world: World, dispatch: Dispatch
) -> None:
    begun(world)
    move(world, "completed")
    complete(world)
    for record_id in (CODON, RUN):
        settle(world, record_id)
    close(world)
    partition = partition_of(DATA)
    later_ms = world.views.now_ms() + LATER_MS
    for record_id, due_ms in ((DATA, later_ms), (CODON, later_ms), (RUN, 1)):
        read(world.client, "ZADD", world.keys.ended_index(partition), due_ms, record_id)

    assert prune.run(sweeping(dispatch), partition) == Counter(pruned=1)

    assert "family-log:data" in keys_left(world)


def test_a_workspace_that_is_closed_too_early_leaves_nothing_either(
    world: World, dispatch: Dispatch
) -> None:
    begun(world)
    close(world)
    assert prune_old(world, dispatch) == Counter(busy=1)
    tell(world, "CostsIncremented", cost_delta=5)
    move(world, "completed")
    complete(world)
    for record_id in (CODON, RUN):
        settle(world, record_id)

    assert prune_all(world, dispatch) == set()


def prune_all(world: World, dispatch: Dispatch) -> set[str]:
    """Prune until nothing is left to prune; return the keys that are left."""
    for _ in range(ROUNDS_MAX):
        if not prune_old(world, dispatch):
            break
    return keys_left(world)
