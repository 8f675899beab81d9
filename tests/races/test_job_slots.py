"""A free slot goes to a job that can use it, even if workers are lost or other jobs wait."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from interlock.kernel.store.scripts import read
from interlock.workers.gateways.server import EmbeddedServer
from tests.kernel.store.kernel_at_a_fixed_time import START_US, Text
from tests.races.in_process_worker import Calls, InProcessWorker, LostError, done

QUEUES = "q=1"


@pytest.fixture
def worker(server: EmbeddedServer, prefix: str, tmp_path: Path, text: Text) -> InProcessWorker:
    """Return a worker of this process, under a clock that stands still until the test moves it."""
    text.now_us = START_US
    return InProcessWorker(server.url, prefix, tmp_path, text=text, INTERLOCK_QUEUE_SLOTS=QUEUES)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    return Calls(monkeypatch)


def job(worker: InProcessWorker, job_id: str, **more: Any) -> str:
    """Create a job that starts by itself, and perform its effects until it runs or waits."""
    worker.create_job(job_id, manual=False, **more)
    rest(worker, job_id)
    return job_id


def rest(worker: InProcessWorker, *ids: str) -> None:
    """Perform all due effects except the worker."""
    while todo := [
        (job_id, one.name)
        for job_id in ids
        for one in worker.due_effects(job_id)
        if one.name != "worker"
    ]:
        for job_id, name in dict.fromkeys(todo):
            worker.perform(job_id, name)


def holders(worker: InProcessWorker, name: str) -> list[str]:
    found = read(worker.dispatch.client, "ZRANGE", worker.dispatch.keys.slots(name), 0, -1)
    return sorted(one.decode() for one in found)


def states(worker: InProcessWorker, *ids: str) -> list[str]:
    return [worker.record(job_id).state for job_id in ids]


def test_a_job_that_waits_for_one_slot_keeps_no_other_slot_from_jobs_that_could_run(
    worker: InProcessWorker,
) -> None:
    """The head of the queue needs two slots; while it waits for one, it must not hold the other."""
    worker.graphs.open("g", {"slots": 1})
    first = job(worker, "h/first", queue="q")
    head = job(worker, "g/head", queue="q", priority=0)
    assert states(worker, first, head) == ["running", "pending"]
    long = job(worker, "g/long")
    assert states(worker, head, long) == ["pending", "running"]

    # The slot of the queue is free now; that of the graph is still held by `long`.
    behind = job(worker, "h/behind", queue="q", priority=9)
    worker.perform(first, "worker", done)
    rest(worker, first, head, behind)
    assert states(worker, head, behind) == ["pending", "running"]

    worker.perform(behind, "worker", done)
    rest(worker, behind, head)
    assert states(worker, head) == ["pending"]
    worker.perform(long, "worker", done)
    rest(worker, long, head)
    assert states(worker, head) == ["running"]
    assert (holders(worker, "graph:g"), holders(worker, "queue:q")) == ([head], [head])
    worker.check_consistency()


@pytest.mark.parametrize("name", ["slot_release", "scheduling"])
def test_a_slot_that_is_free_when_a_worker_is_lost_is_taken_without_a_recheck(
    worker: InProcessWorker, calls: Calls, name: str
) -> None:
    """One job runs, two wait; the worker that passes the slot on is lost after any of its calls."""
    step, going = 0, True
    while going:
        graph = f"g{step}"
        worker.graphs.open(graph, {"slots": 1})
        ids = [job(worker, f"{graph}/{one}") for one in "abc"]
        worker.perform(ids[0], "worker", done)
        if name == "scheduling":
            worker.perform(ids[0], "slot_release")
        going = lost(worker, calls, step, ids[0] if name == "slot_release" else ids[1], name)
        rest(worker, *ids)
        assert states(worker, *ids[1:]) == ["running", "pending"], step
        worker.perform(ids[1], "worker", done)
        rest(worker, *ids)
        assert states(worker, ids[2]) == ["running"], step
        worker.perform(ids[2], "worker", done)
        rest(worker, *ids)
        assert states(worker, *ids) == ["approval_required"] * 3
        assert holders(worker, f"graph:{graph}") == []
        step += 1
    assert step > 3, "every step was tried"
    worker.check_consistency()


def lost(worker: InProcessWorker, calls: Calls, after: int, job_id: str, name: str) -> bool:
    """Perform an effect, losing its worker after this many calls; return whether it was lost."""
    with calls.lost_after(after):
        try:
            worker.perform(job_id, name)
        except LostError:
            worker.expire_leases()
            return True
    return False


def test_a_job_that_runs_since_a_limit_was_lifted_is_in_no_queue(worker: InProcessWorker) -> None:
    worker.graphs.open("g", {"slots": 1})
    ids = [job(worker, f"g/{one}") for one in "ab"]
    worker.graphs.configure_graph("g", {"slots": 0})
    rest(worker, "g", *ids)
    assert states(worker, *ids) == ["running", "running"]
    for one in ids:
        worker.perform(one, "worker", done)
        rest(worker, *ids)

    assert queued_jobs(worker, "graph:g") == []
    assert holders(worker, "graph:g") == []


def test_a_slot_offered_to_a_job_that_was_deleted_goes_to_the_next(worker: InProcessWorker) -> None:
    first, second = job(worker, "a/first", queue="q"), job(worker, "b/second", queue="q")
    queue_key = worker.dispatch.keys.slots_queue("queue:q")
    worker.dispatch.client.zadd(queue_key, {"gone/1": 0, "gone/2": 1})
    worker.perform(first, "worker", done)
    rest(worker, first, second)

    assert states(worker, second) == ["running"]
    assert holders(worker, "queue:q") == [second]


def queued_jobs(worker: InProcessWorker, name: str) -> list[bytes]:
    key = worker.dispatch.keys.slots_queue(name)
    return list(read(worker.dispatch.client, "ZRANGE", key, 0, -1))
