"""A slot that is free is taken by who can use it, whoever is lost on the way and whoever waits."""

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


def job(worker: InProcessWorker, of: str, **more: Any) -> str:
    """Create a job that starts by itself, and do what is owed until it runs or waits."""
    worker.create_job(of, manual=False, **more)
    rest(worker, of)
    return of


def rest(worker: InProcessWorker, *ids: str) -> None:
    """Do what is owed but the work itself."""
    while todo := [
        (of, one.name) for of in ids for one in worker.due_effects(of) if one.name != "worker"
    ]:
        for of, name in dict.fromkeys(todo):
            worker.perform(of, name)


def holders(worker: InProcessWorker, name: str) -> list[str]:
    found = read(worker.dispatch.client, "ZRANGE", worker.dispatch.keys.slots(name), 0, -1)
    return sorted(one.decode() for one in found)


def states(worker: InProcessWorker, *ids: str) -> list[str]:
    return [worker.record(of).state for of in ids]


def test_a_head_that_waits_for_one_slot_keeps_no_other_from_who_could_run(
    worker: InProcessWorker,
) -> None:
    """First by priority, a job needs its graph's one slot and its queue's; it never sits on one."""
    worker.graphs.open("g", {"slots": 1})
    first = job(worker, "h/first", queue="q")
    head = job(worker, "g/head", queue="q", priority=0)
    assert states(worker, first, head) == ["running", "pending"]
    long = job(worker, "g/long")
    assert states(worker, head, long) == ["pending", "running"]

    # The queue's slot is free now, the graph's for long is not.
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


@pytest.mark.parametrize("name", ["vacancy", "scheduling"])
def test_a_slot_that_is_free_when_a_worker_is_lost_is_taken_without_a_recheck(
    worker: InProcessWorker, calls: Calls, name: str
) -> None:
    """One runs, two wait: who gives the slot on is lost after each of its calls."""
    step, going = 0, True
    while going:
        graph = f"g{step}"
        worker.graphs.open(graph, {"slots": 1})
        ids = [job(worker, f"{graph}/{one}") for one in "abc"]
        worker.perform(ids[0], "worker", done)
        if name == "scheduling":
            worker.perform(ids[0], "vacancy")
        going = lost(worker, calls, step, ids[0] if name == "vacancy" else ids[1], name)
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


def lost(worker: InProcessWorker, calls: Calls, after: int, of: str, name: str) -> bool:
    """Do an effect and be lost after so many calls; tell whether it came to that."""
    with calls.lost_after(after):
        try:
            worker.perform(of, name)
        except LostError:
            worker.expire_leases()
            return True
    return False


def test_a_job_that_runs_since_a_limit_was_lifted_stands_in_no_line(
    worker: InProcessWorker,
) -> None:
    worker.graphs.open("g", {"slots": 1})
    ids = [job(worker, f"g/{one}") for one in "ab"]
    worker.graphs.configure_graph("g", {"slots": 0})
    rest(worker, "g", *ids)
    assert states(worker, *ids) == ["running", "running"]
    for one in ids:
        worker.perform(one, "worker", done)
        rest(worker, *ids)

    assert left_in_line(worker, "graph:g") == []
    assert holders(worker, "graph:g") == []


def test_a_slot_given_to_a_job_that_is_forgotten_goes_to_the_next(worker: InProcessWorker) -> None:
    first, second = job(worker, "a/first", queue="q"), job(worker, "b/second", queue="q")
    stranger = worker.dispatch.keys.slots_line("queue:q")
    worker.dispatch.client.zadd(stranger, {"gone/1": 0, "gone/2": 1})
    worker.perform(first, "worker", done)
    rest(worker, first, second)

    assert states(worker, second) == ["running"]
    assert holders(worker, "queue:q") == [second]


def left_in_line(worker: InProcessWorker, name: str) -> list[bytes]:
    key = worker.dispatch.keys.slots_line(name)
    return list(read(worker.dispatch.client, "ZRANGE", key, 0, -1))
