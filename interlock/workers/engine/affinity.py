"""Pins a worker's threads to one processor. Handlers that are not quick may use all processors.

The interpreter lock lets one thread of a process run at a time. Passing it to a thread on another
processor, which has to be woken, takes several times as long as a short effect
(docs/benchmarks.md). Other pools than threads are left alone, because they do not share a lock.
To give a quick handler all processors and take them away again would be a sixth of its effect.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from collections.abc import Hashable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from celery.concurrency.thread import TaskPool as Threads
from celery.signals import task_prerun, worker_ready

from interlock.workers.processes.clock import clock

# The scheduler chooses the processor: every PERIOD_S the main thread is left to it for CHOICE_S.
PERIOD_S = 5.0
CHOICE_S = 0.02
# The field of /proc/<pid>/stat with the processor that ran a thread last, counted after its name.
STAT_PROCESSOR = 36
# A handler is quick if its last run took less processor time. One that still works or waits after
# LATE_S gets all processors then.
QUICK_S = 0.001
LATE_S = 0.05
# What Python tells of a thread that starts another one or a process, or loads a module: these have
# the processors of that thread, and keep them. Python 3.11 does not tell of threads.
STARTS = frozenset(
    {
        *("import", "_thread.start_new_thread", "_thread.start_joinable_thread"),
        *("subprocess.Popen", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"),
    }
)


class Affinity:
    """The processor that this process is pinned to. Until one is chosen, no thread is moved.

    None is chosen if `enabled` is false or the system has no `sched_setaffinity`.
    """

    def __init__(self, *, enabled: bool) -> None:
        able = enabled and hasattr(os, "sched_setaffinity")
        self.all_processors = frozenset(os.sched_getaffinity(0)) if able else frozenset()
        self.chosen = self.all_processors
        self._thread = threading.local()
        self._stopped, self._begun = threading.Event(), threading.Event()
        self._quick: set[Hashable] = set()
        self._began: dict[int, float] = {}  # when a thread began with a quick handler, by native id

    def narrow(self) -> None:
        """Pin the calling thread to the chosen processor."""
        self._pin(self.chosen)

    def widen(self) -> None:
        """Let the calling thread, and the threads that it starts, run on every processor."""
        self._pin(self.all_processors)

    @contextmanager
    def handler(self, name: Hashable) -> Iterator[None]:
        """Let the calling thread run this handler, on every processor unless its last was quick.

        If it is not quick this time, it gets them after a moment, or once it starts something.
        """
        thread, used_s = threading.get_native_id(), time.thread_time()
        if name in self._quick:
            self._began[thread] = clock()
            if not self._begun.is_set():
                self._begun.set()
        else:
            self.widen()
        try:
            yield
        finally:
            is_quick = time.thread_time() - used_s < QUICK_S
            (self._quick.add if is_quick else self._quick.discard)(name)
            if not self._began.pop(thread, 0.0):
                self._thread.processors = None  # the watching thread may have set others
            self.narrow()

    def watch(self) -> None:
        """Choose a processor now, and again every few seconds until `stop`."""
        if len(self.all_processors) > 1:
            threading.Thread(target=self._watch, name="affinity", daemon=True).start()
            sys.addaudithook(self._widen_at_start)

    def stop(self) -> None:
        """Stop choosing."""
        self._stopped.set()
        self._begun.set()

    def choose(self) -> None:
        """Let the scheduler place the main thread for a moment, and pin it to that processor."""
        main = os.getpid()
        _set_affinity(main, self.all_processors)
        self._stopped.wait(CHOICE_S)
        fields = Path(f"/proc/{main}/stat").read_text("ascii").rpartition(")")[2].split()
        self.chosen = frozenset({int(fields[STAT_PROCESSOR])})
        _set_affinity(main, self.chosen)

    def _pin(self, processors: frozenset[int]) -> None:
        # A thread starts with the affinity of its starter, so only a repeated call can be skipped.
        if (
            self.chosen is self.all_processors
            or getattr(self._thread, "processors", None) is processors
        ):
            return
        self._thread.processors = processors
        _set_affinity(0, processors)

    def _watch(self) -> None:
        while not self._stopped.is_set():
            self.choose()
            until = clock() + PERIOD_S
            while (left_s := until - clock()) > 0 and self._begun.wait(left_s):
                self._begun.clear()
                if self._stopped.wait(LATE_S):
                    return
                self._widen_late()

    def _widen_late(self) -> None:
        late = clock() - LATE_S
        for thread, began in self._began.copy().items():
            # One that ends at this moment keeps them until the next choice, which harms nothing.
            if began <= late and self._began.pop(thread, 0.0):
                _set_affinity(thread, self.all_processors)

    def _widen_at_start(self, event: str, _: object) -> None:
        if event in STARTS and not self._stopped.is_set():
            self.widen()


def _set_affinity(thread: int, processors: frozenset[int]) -> None:
    # A container may lose processors while it runs; then the system has moved the thread already.
    with suppress(OSError):
        os.sched_setaffinity(thread, processors)


def tune_when_ready(affinity: Affinity) -> None:
    """Tune a worker process for short tasks as soon as Celery reports that it is ready."""

    @worker_ready.connect(weak=False)
    def tune(sender: Any, **_: object) -> None:
        if not isinstance(sender.pool, Threads):
            return
        # Objects that are loaded by now stay, so the garbage collector need not visit them again.
        gc.collect()
        gc.freeze()
        affinity.watch()

    @task_prerun.connect(weak=False)
    def begin(**_: object) -> None:
        affinity.narrow()
