"""The threads of a worker: another one takes the place of one that hangs."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import wait
from types import SimpleNamespace
from typing import Any

import pytest
from celery.concurrency import get_implementation
from celery.worker import state

from interlock.workers.engine import thread_pool
from interlock.workers.engine.isolation import Performed
from interlock.workers.engine.thread_pool import HandlerThreads, TaskPool, watch_threads
from interlock.workers.engine.time_limits import TimeLimits
from tests.waiting import until

WAIT_S = 60.0


class Held:
    """An item that goes on until the end of the test."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.threads: list[int] = []

    def wait(self) -> None:
        self.threads.append(threading.get_ident())
        self.go_on.wait(WAIT_S)


@pytest.fixture
def held() -> Iterator[Held]:
    held = Held()
    yield held
    held.go_on.set()


def hang(threads: HandlerThreads, held: Held) -> int:
    """Let a thread hang, and return which it is."""
    before = len(held.threads)
    threads.submit(held.wait)
    until(lambda: len(held.threads) > before, what="it hangs")
    return held.threads[-1]


def test_items_are_done_in_their_order_and_an_error_ends_no_thread() -> None:
    threads, done = HandlerThreads(1), list[int]()

    def fail() -> None:
        raise SystemExit(3)

    failed = threads.submit(fail)
    futures = [threads.submit(done.append, number) for number in range(3)]
    wait(futures, WAIT_S)

    assert isinstance(failed.exception(WAIT_S), SystemExit)
    assert done == [0, 1, 2]
    threads.close()


def test_another_thread_takes_the_place_of_one_that_hangs_and_that_one_ends_when_it_comes_back(
    held: Held,
) -> None:
    threads = HandlerThreads(1)
    hung = hang(threads, held)
    waiting = threads.submit(threading.get_ident)

    assert threads.replace(hung) == 1

    other = waiting.result(WAIT_S)
    assert other != hung
    assert threads.replace(hung) == 1, "it is replaced once"
    held.go_on.set()
    until(
        lambda: hung not in {thread.ident for thread in threading.enumerate()}, what="it has ended"
    )
    # It left nothing behind for another one to do, and no second thread is there.
    assert {threads.submit(threading.get_ident).result(WAIT_S) for _ in range(5)} == {other}
    threads.close()


def test_the_end_of_a_worker_waits_for_its_items_but_not_for_one_that_hangs(held: Held) -> None:
    threads = HandlerThreads(2)
    begun, go_on = threading.Event(), threading.Event()
    hung = hang(threads, held)
    threads.replace(hung)

    def work() -> str:
        begun.set()
        go_on.wait(WAIT_S)
        return "done"

    at_work = threads.submit(work)
    begun.wait(WAIT_S)
    closing = threading.Thread(target=threads.close)
    closing.start()
    closing.join(0.3)
    assert closing.is_alive(), "it waits for what is at work"

    go_on.set()

    closing.join(WAIT_S)
    assert not closing.is_alive()
    assert at_work.result(0) == "done"
    assert not held.go_on.is_set()


def test_a_cold_shutdown_does_not_wait_for_what_is_at_work(
    held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "should_terminate", True)
    monkeypatch.setattr(thread_pool, "COLD_S", 0.1)
    pool = TaskPool(limit=1)
    pool.start()
    hang(pool.executor, held)
    stopping = threading.Thread(target=pool.stop)

    stopping.start()

    stopping.join(WAIT_S / 2)
    assert not stopping.is_alive()
    assert not held.go_on.is_set()


def test_a_worker_with_too_many_threads_that_hang_ends(
    held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(thread_pool, "HUNG_MAX", 2)
    monkeypatch.setattr(os, "kill", lambda *given: sent.append(given))
    worker: Any = SimpleNamespace(pool_cls="threads")
    limits = TimeLimits(end=lambda _: Performed(""))
    watch_threads(worker, limits)
    assert worker.pool_cls is TaskPool
    worker.pool = worker.pool_cls(limit=1)
    worker.pool.start()
    apply = worker.pool.executor

    for ends in ([], [(os.getpid(), signal.SIGTERM)]):
        limits.on_hung(hang(apply, held), Performed(""))
        assert sent == ends

    worker.pool.stop()


def test_another_kind_of_pool_is_left_alone() -> None:
    worker: Any = SimpleNamespace(pool_cls=get_implementation("solo"))

    watch_threads(worker, TimeLimits(end=lambda _: Performed("")))

    assert worker.pool_cls is get_implementation("solo")
