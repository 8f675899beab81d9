"""A turn is looked at now and then, and ends when its task is no longer about it."""

from __future__ import annotations

import pytest
import redis

from interlock.kernel.machines import MACHINES
from interlock.kernel.record import partition_of
from interlock.workers.client import Client
from interlock.workers.engine.resources import Resources
from interlock.workers.engine.runner import Runner
from interlock.workers.engine.sweeps.stalls import run
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.systems import handlers
from tests.end_to_end.engine.test_stranding import due
from tests.workers.tasks.claims import Claimed, claimed
from tests.workers.threads.threads import client_of


@pytest.fixture
def here(server: EmbeddedServer, prefix: str) -> Client:
    return client_of(server.url, prefix)


def looked_at(here: Client, client: redis.Redis, begun: Claimed) -> str:
    """Let its hour pass, and return where the turn stands then."""
    turn = begun.place.turn
    due(here.dispatch, client, turn, "look")
    run(here.dispatch, partition_of(turn))
    (entry,) = [one for one in here.show(turn).entries if one.name == "reaping"]
    runner = Runner(here.dispatch, Resources(here.settings))
    runner.perform(MACHINES["turn"], "reaping", handlers()["reaping"], entry.key(turn))
    return here.show(turn).state


def test_a_turn_whose_task_is_at_work_goes_on(here: Client, client: redis.Redis) -> None:
    begun = claimed(here, "b/one").alive()

    assert looked_at(here, client, begun) == "running"
    assert looked_at(here, client, begun) == "running"


def test_a_turn_that_its_task_left_is_ended(here: Client, client: redis.Redis) -> None:
    begun = claimed(here, "b/one").alive()
    here.cancel("b/one")

    assert looked_at(here, client, begun) == "failed"
    assert here.show(begun.place.turn).data["failure"]["reason"] == "nobody led it on"
