"""Workers, beat and sweeps over every kind of store that is more than one server."""

from __future__ import annotations

from functools import partial

import pytest

from interlock.kernel.errors import StoreError
from interlock.workers.gateways.server import EmbeddedServer
from tests.end_to_end.conftest import NewDeployment
from tests.end_to_end.deployment import Deployment, thread
from tests.end_to_end.threads.test_families import family_of, part, split
from tests.servers import Watched
from tests.waiting import until

# As in a deployment: events go over the store too.
VARIABLES = {"INTERLOCK_TASK_EVENTS": "1"}


def test_threads_families_and_orphans_end_on_a_cluster(
    new_deployment: NewDeployment, cluster: EmbeddedServer, server: EmbeddedServer
) -> None:
    url = f"redis+cluster://127.0.0.1:{cluster.port}"
    deployment = new_deployment(url, INTERLOCK_BROKER_URL=server.url).tend(3)
    deployment.client.submit(thread("deadly"), machine="thread", id="orphan")
    children = split(deployment, [part(), part("slow", seconds=1), part()])

    assert {
        record.state for record in deployment.ends(family_of(deployment), "orphan", *children)
    } == {"done"}
    assert len(deployment.saw("orphan", "start")) == 2, "its worker was lost, and a sweep found it"


@pytest.mark.slow
def test_threads_end_through_a_failover_with_sentinel(
    new_deployment: NewDeployment, watched: Watched, server: EmbeddedServer
) -> None:
    deployment = new_deployment(watched.url, INTERLOCK_BROKER_URL=server.url).full(
        workers=2, concurrency=4
    )
    ids = [f"t{n}" for n in range(12)]
    for name in ids:
        deployment.client.submit(thread("slow", seconds=1.5), machine="thread", id=name)
    deployment.sees(lambda: len(deployment.recorded) > 3, what="some of them are at work")
    watched.kill_master()
    until(partial(answers, deployment), what="the replica is the master", within_s=180)

    assert {record.state for record in deployment.ends(*ids, within_s=180)} == {"done"}
    assert all(process.alive for process in deployment.processes)
    assert watched.ask("GET-MASTER-ADDR-BY-NAME", "interlock")[1] == str(watched.replica.port)


def answers(deployment: Deployment) -> bool:
    """Whether the store answers again."""
    try:
        deployment.client.submit(thread("jot"), machine="thread", id="after")
    except StoreError:
        return False
    return True
