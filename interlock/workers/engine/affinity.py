"""Pins a worker's own threads to one processor; handlers may use all processors.

A handler of a quick effect only calls the store, so it stays on the worker's processor too.

The interpreter lock lets one thread of a process run at a time. Passing it to a thread on another
processor, which has to be woken, takes several times as long as a short effect
(docs/benchmarks.md). Other pools than threads are left alone, because they do not share a lock.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from celery.concurrency.thread import TaskPool as Threads
from celery.signals import task_prerun, worker_ready

# The scheduler chooses the processor: every PERIOD_S the main thread is left to it for CHOICE_S.
PERIOD_S = 5.0
CHOICE_S = 0.02
# The field of /proc/<pid>/stat with the processor that ran a thread last, counted after its name.
STAT_PROCESSOR = 36


class Affinity:
    """The processor that this process is pinned to. Until one is chosen, no thread is moved.

    None is chosen if `enabled` is false or the system has no `sched_setaffinity`.
    """

    def __init__(self, *, enabled: bool) -> None:
        able = enabled and hasattr(os, "sched_setaffinity")
        self.all_processors = frozenset(os.sched_getaffinity(0)) if able else frozenset()
        self.chosen = self.all_processors
        self._thread = threading.local()
        self._stopped = threading.Event()

    def narrow(self) -> None:
        """Pin the calling thread to the chosen processor."""
        self._pin(self.chosen)

    def widen(self) -> None:
        """Let the calling thread, and the threads that it starts, run on every processor."""
        self._pin(self.all_processors)

    @contextmanager
    def wide(self) -> Iterator[None]:
        """Let the calling thread, and those that it starts, use every processor in this block."""
        self.widen()
        try:
            yield
        finally:
            self.narrow()

    def watch(self) -> None:
        """Choose a processor now, and again every few seconds until `stop`."""
        if len(self.all_processors) > 1:
            threading.Thread(target=self._watch, name="affinity", daemon=True).start()

    def stop(self) -> None:
        """Stop choosing."""
        self._stopped.set()

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
            self._stopped.wait(PERIOD_S)


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
