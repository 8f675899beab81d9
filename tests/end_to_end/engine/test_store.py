"""The store is killed and restarted with its log: no acknowledged call is lost."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from celery import Celery

from interlock.kernel.errors import StoreError, StoreFullError
from interlock.kernel.record import PARTITIONS
from interlock.kernel.store.format import FORMAT
from interlock.workers.engine.celery_app import INTAKE_QUEUE
from interlock.workers.gateways.server import EmbeddedServer, free_port
from tests.conftest import NewServer
from tests.end_to_end.conftest import NewDeployment
from tests.end_to_end.deployment import Deployment, Process, thread
from tests.servers import EACH_WRITE_ON_DISK, refusing
from tests.waiting import until

# As in a deployment: events go over the store too.
VARIABLES = {"INTERLOCK_TASK_EVENTS": "1"}


class Producer(threading.Thread):
    """Submits threads one by one, each until it is acknowledged."""

    def __init__(self, deployment: Deployment, number: int) -> None:
        super().__init__()
        self.deployment, self.number = deployment, number
        self.accepted: list[str] = []
        self.refused = 0

    def reached(self, number: int) -> bool:
        return len(self.accepted) >= number

    def run(self) -> None:
        for n in range(self.number):
            capability = ("jot", "slow", "jot_once")[n % 3]
            parameters: dict[str, Any] = {"seconds": 0.3} if capability == "slow" else {}
            while len(self.accepted) == n:
                try:
                    self.deployment.client.submit(
                        thread(capability, **parameters), machine="thread", id=f"t{n}"
                    )
                    self.accepted.append(f"t{n}")
                except StoreError:
                    self.refused += 1


def crash(store: EmbeddedServer) -> None:
    """Kill the server itself, and start it again over the same folder and port."""
    os.kill(store.process_id, signal.SIGKILL)
    store.stop()
    store.start()


def test_a_store_that_is_killed_under_load_loses_no_acknowledged_thread(
    new_server: NewServer, new_deployment: NewDeployment
) -> None:
    store = new_server(port=free_port(), settings=EACH_WRITE_ON_DISK)
    deployment = new_deployment(store.url).full(workers=2, concurrency=4)
    producer = Producer(deployment, 120)
    producer.start()
    for wanted in (30, 60, 90):
        deployment.sees(partial(producer.reached, wanted), what="load")
        crash(store)
    producer.join()

    with suppress(AssertionError):
        deployment.ends(*producer.accepted, within_s=120)
    states = {name: deployment.checked(name).state for name in producer.accepted}

    assert len(states) == 120
    left = {name: state for name, state in states.items() if state != "done"}
    assert not left, [deployment.story(name) for name in list(left)[:2]]
    for name in producer.accepted:
        assert len({line["key"] for line in deployment.saw(name, "start")}) == 1
        assert len(deployment.saw(name, "end")) == 1


def test_a_store_that_is_away_ends_no_worker(
    new_server: NewServer, new_deployment: NewDeployment, tmp_path: Path
) -> None:
    store, go = new_server(port=free_port()), tmp_path / "go"
    deployment = new_deployment(store.url).full()
    deployment.client.submit(thread("slow_once", go=str(go)), machine="thread", id="during")
    deployment.sees(lambda: deployment.saw("during", "start"), what="it runs")

    store.stop()
    go.touch()
    deployment.sees(
        lambda: deployment.saw("during", "end"), what="it ended while the store was away"
    )
    store.start()

    assert deployment.ends("during")[0].state == "done", "its outcome waited for the store"
    assert all(process.alive for process in deployment.processes)
    deployment.client.submit(thread("jot"), machine="thread", id="after")
    assert deployment.ends("after")[0].state == "done"


def test_a_store_that_refuses_for_a_while_ends_no_process_and_none_that_starts_meanwhile(
    new_server: NewServer, new_deployment: NewDeployment
) -> None:
    store = new_server()
    deployment = new_deployment(store.url).full()
    worker, admin = deployment.processes[0], deployment.client.dispatch.client
    intake = deployment.intake()
    deployment.sees(intake.is_ready, what="intake is ready")
    with refusing(admin, "is a replica"):
        late = [deployment.worker(ready=False), deployment.intake()]
        deployment.beat()
        for each in (worker, intake, *late):
            deployment.sees(partial(waits, each), what="it waits")
    for each in late:
        deployment.sees(each.is_ready, what="it goes on")
    with refusing(admin, "wants a password"):
        shut_out, _ = deployment.worker(ready=False), deployment.beat()
        deployment.sees(lambda: "waits for the store" in shut_out.output, what="it says so")
    deployment.sees(shut_out.is_ready, what="it goes on")

    request = {"id": "after", "payload": thread("jot")}
    with Celery(broker=store.url) as producer:
        producer.send_task(
            "interlock.submit", args=[request], queue=f"{deployment.prefix}.{INTAKE_QUEUE}"
        )
    deployment.reaches("after", "done")
    assert all(process.alive for process in deployment.processes)
    assert worker.output.count("this process waits") == 1


def waits(process: Process) -> bool:
    return "this process waits" in process.output


def test_a_store_that_is_full_refuses_with_one_sentence_and_goes_on_when_there_is_room(
    new_server: NewServer, new_deployment: NewDeployment, tmp_path: Path
) -> None:
    store, go = new_server(), tmp_path / "go"
    deployment = new_deployment(store.url).full()
    deployment.client.submit(thread("slow", go=str(go)), machine="thread", id="during")
    deployment.sees(lambda: deployment.saw("during", "start"), what="it runs")

    admin = deployment.client.dispatch.client
    admin.config_set("maxmemory", 1)
    with pytest.raises(StoreFullError, match="full"):
        deployment.client.submit(thread("jot"), machine="thread", id="refused")
    go.touch()
    deployment.sees(
        lambda: deployment.saw("during", "end"), what="it ended while the store was full"
    )
    admin.config_set("maxmemory", 0)

    assert deployment.ends("during")[0].state == "done"
    deployment.client.submit(thread("jot"), machine="thread", id="refused")
    assert deployment.ends("refused")[0].state == "done"


def test_processes_at_work_end_when_a_newer_version_takes_the_store_over(
    deployment: Deployment,
) -> None:
    deployment.client.submit(thread("jot"), machine="thread", id="one")
    deployment.ends("one")
    keys, store = deployment.client.dispatch.keys, deployment.client.dispatch.client
    for at in range(PARTITIONS):
        store.hset(keys.meta(at), mapping={"format": FORMAT + 1, "version": "9.8.7"})

    for process in deployment.processes:
        until(partial(ended, process), what=f"{process.name} has ended", within_s=30)
        assert "this process ends" in process.output
        assert "install interlock>=9.8.7" in process.output


def ended(process: Process) -> bool:
    return not process.alive
