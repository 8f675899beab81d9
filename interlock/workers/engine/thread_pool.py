"""Celery's pool of threads, in which another thread takes the place of one that hangs."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from math import inf
from queue import Empty, SimpleQueue
from typing import Any

from celery.concurrency import get_implementation
from celery.concurrency.thread import TaskPool as CeleryThreads
from celery.worker import state
from celery.worker.control import Panel

from interlock.workers.engine.isolation import Performed
from interlock.workers.engine.time_limits import TimeLimits
from interlock.workers.processes.clock import clock

log = logging.getLogger(__name__)

# So many threads of a worker may hang. Each keeps what its handler has, such as memory and files.
HUNG_MAX = 16
HUNG_COMMAND = "hung_attempts"  # of Celery's remote control
JOIN_S = 0.1
COLD_S = 5.0  # how long a cold shutdown, after SIGQUIT, waits for the threads
Item = tuple[Future[Any], Callable[[], Any]]


def watch_threads(worker: Any, limits: TimeLimits) -> None:
    """Let a Celery worker that is about to start replace its threads that hang, and name them."""
    Panel.data[HUNG_COMMAND] = lambda *_, **__: limits.hung()
    if get_implementation(worker.pool_cls) is not CeleryThreads:
        return
    worker.pool_cls = TaskPool

    def replace(thread: int, ended: Performed) -> None:
        del ended
        worker.pool.replace(thread)

    limits.on_hung = replace


class HandlerThreads:
    """A fixed number of threads that do items in their order. They end with the process."""

    def __init__(self, size: int) -> None:
        self._items: SimpleQueue[Item | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads: set[threading.Thread] = set()
        self._replaced: set[threading.Thread] = set()
        for _ in range(size):
            self._start()

    def submit(self, function: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        """Let a thread call the function as soon as one is free."""
        future: Future[Any] = Future()
        self._items.put((future, partial(function, *args, **named)))
        return future

    def replace(self, ident: int) -> int:
        """Start a thread in place of one that hangs, and return how many hang.

        That one ends when it comes back.
        """
        with self._lock:
            found = [each for each in self._threads if each.ident == ident]
            for thread in found:
                self._threads.discard(thread)
                self._replaced.add(thread)
                self._start()
            return len(self._replaced)

    def close(self, within_s: float = inf) -> None:
        """Begin no other item, and wait for those that are begun, but for none that hangs."""
        end = clock() + within_s
        with suppress(Empty):
            while True:
                self._items.get_nowait()
        with self._lock:
            for _ in self._threads:
                self._items.put(None)
        while clock() < end and (left := next(iter(tuple(self._threads)), None)):
            left.join(JOIN_S)

    def _start(self) -> None:
        thread = threading.Thread(target=self._work, name="handlers", daemon=True)
        self._threads.add(thread)
        thread.start()

    def _work(self) -> None:
        own = threading.current_thread()
        while own not in self._replaced and (item := self._items.get()) is not None:
            _do(*item)
            del item  # what it holds is not kept until the next one comes
        with self._lock:
            self._threads.discard(own)
            self._replaced.discard(own)


def _do(future: Future[Any], call: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(call())
    except BaseException as failure:  # noqa: BLE001 - as other executors do
        future.set_exception(failure)


class TaskPool(CeleryThreads):
    """The pool of a worker."""

    def on_start(self) -> None:
        """Start the threads."""
        self.executor = HandlerThreads(self.limit)

    def on_stop(self) -> None:
        """End the threads. What they have not begun stays with the broker.

        A cold shutdown does not wait for long. Celery ends the pool in its handler of SIGQUIT then,
        which may have interrupted its thread where that holds a lock, such as that of events: the
        threads of the pool would wait for the lock, and the handler for them.
        """
        self.executor.close(COLD_S if state.should_terminate else inf)

    def replace(self, thread: int) -> None:
        """Start a thread in place of one that hangs. If too many hang, the worker ends."""
        hung = self.executor.replace(thread)
        if hung == HUNG_MAX:
            log.error(
                "%d threads hang, so this worker ends, as after SIGTERM, and is to be started anew:"
                " `interlock doctor` names what hangs in the others",
                hung,
            )
            os.kill(os.getpid(), signal.SIGTERM)
