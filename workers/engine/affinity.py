"""Keeps a worker's own threads on one processor, and leaves them all to what its handlers do.

A quick effect only asks and tells the store, and stays where the worker's own threads are.

The interpreter lock lets one thread of a process run at a time. Handed to a thread on another
processor, which has to be woken for it, it costs several times what a short effect does in its turn
(docs/benchmarks.md). Other pools than threads are left alone: they hand no lock over.
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
# The word of /proc/<pid>/stat that says where a thread ran last, counted from behind its name.
PROCESSOR = 36


class Affinity:
    """The processor of this process. Until one is chosen, nothing happens.

    `one` is false where none is to be chosen; where the system offers no choice, none is.
    """

    def __init__(self, *, one: bool) -> None:
        able = one and hasattr(os, "sched_setaffinity")
        self.every = frozenset(os.sched_getaffinity(0)) if able else frozenset()
        self.chosen = self.every
        self._thread = threading.local()
        self._over = threading.Event()

    def narrow(self) -> None:
        """Keep the calling thread on the chosen processor."""
        self._keep(self.chosen)

    def widen(self) -> None:
        """Let the calling thread, and whatever it starts, run everywhere."""
        self._keep(self.every)

    @contextmanager
    def wide(self) -> Iterator[None]:
        """Let the calling thread, and whatever it starts, run everywhere within the block."""
        self.widen()
        try:
            yield
        finally:
            self.narrow()

    def watch(self) -> None:
        """Choose a processor now, and anew from time to time until `stop`."""
        if len(self.every) > 1:
            threading.Thread(target=self._watch, name="affinity", daemon=True).start()

    def stop(self) -> None:
        """Choose no more."""
        self._over.set()

    def choose(self) -> None:
        """Let the scheduler place the main thread, and keep it there."""
        main = os.getpid()
        _place(main, self.every)
        self._over.wait(CHOICE_S)
        words = Path(f"/proc/{main}/stat").read_text("ascii").rpartition(")")[2].split()
        self.chosen = frozenset({int(words[PROCESSOR])})
        _place(main, self.chosen)

    def _keep(self, processors: frozenset[int]) -> None:
        # A thread begins where its starter was, so that only a second call may be spared.
        if self.chosen is self.every or getattr(self._thread, "kept", None) is processors:
            return
        self._thread.kept = processors
        _place(0, processors)

    def _watch(self) -> None:
        while not self._over.is_set():
            self.choose()
            self._over.wait(PERIOD_S)


def _place(thread: int, processors: frozenset[int]) -> None:
    # A container may lose processors while it runs; then the system has placed the thread itself.
    with suppress(OSError):
        os.sched_setaffinity(thread, processors)


def tune_when_ready(affinity: Affinity) -> None:
    """Tune a worker process for short tasks as soon as Celery says that it is up."""

    @worker_ready.connect(weak=False)
    def tune(sender: Any, **_: object) -> None:
        if not isinstance(sender.pool, Threads):
            return
        # What is loaded by now stays: the collector need not walk through it again and again.
        gc.collect()
        gc.freeze()
        affinity.watch()

    @task_prerun.connect(weak=False)
    def begin(**_: object) -> None:
        affinity.narrow()
