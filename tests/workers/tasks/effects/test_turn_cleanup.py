"""A turn is checked every hour, and fails if its task went on without it."""

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
def interlock_client(server: EmbeddedServer, prefix: str) -> Client:
    return client_of(server.url, prefix)


def state_after_an_hour(interlock_client: Client, client: redis.Redis, claim: Claimed) -> str:
    """Let an hour pass, perform the cleanup, and return the state of the turn."""
    turn = claim.names.turn
    due(interlock_client.dispatch, client, turn, "recheck")
    run(interlock_client.dispatch, partition_of(turn))
    (entry,) = [
        entry for entry in interlock_client.show(turn).entries if entry.name == "turn_cleanup"
    ]
    runner = Runner(interlock_client.dispatch, Resources(interlock_client.settings))
    runner.perform(MACHINES["turn"], "turn_cleanup", handlers()["turn_cleanup"], entry.key(turn))
    return interlock_client.show(turn).state


def test_the_turn_of_a_task_at_work_goes_on(interlock_client: Client, client: redis.Redis) -> None:
    claim = claimed(interlock_client, "b/one").alive()

    assert state_after_an_hour(interlock_client, client, claim) == "running"
    assert state_after_an_hour(interlock_client, client, claim) == "running"


def test_a_turn_that_its_task_went_on_without_has_failed(
    interlock_client: Client, client: redis.Redis
) -> None:
    claim = claimed(interlock_client, "b/one").alive()
    interlock_client.cancel("b/one")

    assert state_after_an_hour(interlock_client, client, claim) == "failed"
    assert (
        interlock_client.show(claim.names.turn).data["failure"]["reason"]
        == "its task went on without it"
    )
