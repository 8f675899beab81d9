"""A free slot goes to a job that can use it, even if workers are lost or other jobs wait."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from interlock.kernel.store.scripts import read
from interlock.workers.gateways.server import EmbeddedServer
from tests.kernel.store.kernel_at_a_fixed_time import START_US, Text
from tests.races.in_process_worker import Calls, Hands, LostError, done

QUEUES = "q=1"


@pytest.fixture
def hands(server: EmbeddedServer, prefix: str, tmp_path: Path, text: Text) -> Hands:
    """Return a worker of this process, under a clock that stands still until the test moves it."""
    text.now_us = START_US
    return Hands(server.url, prefix, tmp_path, text=text, INTERLOCK_QUEUE_SLOTS=QUEUES)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    return Calls(monkeypatch)


def job(hands: Hands, job_id: str, **more: Any) -> str:
    """Create a job that starts by itself, and perform its effects until it runs or waits."""
    hands.job(job_id, manual=False, **more)
    rest(hands, job_id)
    return job_id


def rest(hands: Hands, *ids: str) -> None:
    """Perform all due effects except the worker."""
    while todo := [
        (job_id, one.name) for job_id in ids for one in hands.owed(job_id) if one.name != "worker"
    ]:
        for job_id, name in dict.fromkeys(todo):
            hands.do(job_id, name)


def holders(hands: Hands, name: str) -> list[str]:
    found = read(hands.dispatch.client, "ZRANGE", hands.dispatch.keys.slots(name), 0, -1)
    return sorted(one.decode() for one in found)


def states(hands: Hands, *ids: str) -> list[str]:
    return [hands.record(job_id).state for job_id in ids]


def test_a_job_that_waits_for_one_slot_keeps_no_other_slot_from_jobs_that_could_run(
    hands: Hands,
) -> None:
    """The head of the queue needs two slots; while it waits for one, it must not hold the other."""
    hands.graphs.open("g", {"slots": 1})
    first = job(hands, "h/first", queue="q")
    head = job(hands, "g/head", queue="q", priority=0)
    assert states(hands, first, head) == ["running", "pending"]
    long = job(hands, "g/long")
    assert states(hands, head, long) == ["pending", "running"]

    # The slot of the queue is free now; that of the graph is still held by `long`.
    behind = job(hands, "h/behind", queue="q", priority=9)
    hands.do(first, "worker", done)
    rest(hands, first, head, behind)
    assert states(hands, head, behind) == ["pending", "running"]

    hands.do(behind, "worker", done)
    rest(hands, behind, head)
    assert states(hands, head) == ["pending"]
    hands.do(long, "worker", done)
    rest(hands, long, head)
    assert states(hands, head) == ["running"]
    assert (holders(hands, "graph:g"), holders(hands, "queue:q")) == ([head], [head])
    hands.sound()


@pytest.mark.parametrize("name", ["vacancy", "scheduling"])
def test_a_slot_that_is_free_when_a_worker_is_lost_is_taken_without_a_recheck(
    hands: Hands, calls: Calls, name: str
) -> None:
    """One job runs, two wait; the worker that passes the slot on is lost after any of its calls."""
    step, going = 0, True
    while going:
        graph = f"g{step}"
        hands.graphs.open(graph, {"slots": 1})
        ids = [job(hands, f"{graph}/{one}") for one in "abc"]
        hands.do(ids[0], "worker", done)
        if name == "scheduling":
            hands.do(ids[0], "vacancy")
        going = lost(hands, calls, step, ids[0] if name == "vacancy" else ids[1], name)
        rest(hands, *ids)
        assert states(hands, *ids[1:]) == ["running", "pending"], step
        hands.do(ids[1], "worker", done)
        rest(hands, *ids)
        assert states(hands, ids[2]) == ["running"], step
        hands.do(ids[2], "worker", done)
        rest(hands, *ids)
        assert states(hands, *ids) == ["approval_required"] * 3
        assert holders(hands, f"graph:{graph}") == []
        step += 1
    assert step > 3, "every step was tried"
    hands.sound()


def lost(hands: Hands, calls: Calls, after: int, job_id: str, name: str) -> bool:
    """Perform an effect, losing its worker after this many calls; return whether it was lost."""
    with calls.lost_after(after):
        try:
            hands.do(job_id, name)
        except LostError:
            hands.lapse()
            return True
    return False


def test_a_job_that_runs_since_a_limit_was_lifted_is_in_no_queue(hands: Hands) -> None:
    hands.graphs.open("g", {"slots": 1})
    ids = [job(hands, f"g/{one}") for one in "ab"]
    hands.graphs.configure_graph("g", {"slots": 0})
    rest(hands, "g", *ids)
    assert states(hands, *ids) == ["running", "running"]
    for one in ids:
        hands.do(one, "worker", done)
        rest(hands, *ids)

    assert queued_jobs(hands, "graph:g") == []
    assert holders(hands, "graph:g") == []


def test_a_slot_offered_to_a_job_that_was_deleted_goes_to_the_next(hands: Hands) -> None:
    first, second = job(hands, "a/first", queue="q"), job(hands, "b/second", queue="q")
    queue_key = hands.dispatch.keys.slots_line("queue:q")
    hands.dispatch.client.zadd(queue_key, {"gone/1": 0, "gone/2": 1})
    hands.do(first, "worker", done)
    rest(hands, first, second)

    assert states(hands, second) == ["running"]
    assert holders(hands, "queue:q") == [second]


def queued_jobs(hands: Hands, name: str) -> list[bytes]:
    key = hands.dispatch.keys.slots_line(name)
    return list(read(hands.dispatch.client, "ZRANGE", key, 0, -1))
