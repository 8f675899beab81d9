"""Keeps a worker's own threads on one processor, and leaves them all to what its handlers do.

The interpreter lock lets one thread of a process run at a time. Handed to a thread on another
processor, which has to be woken for it, it costs several times what a short effect does in its turn
(docs/benchmarks.md). Pools that fork have a lock for each process and are left alone.
"""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from celery.concurrency.solo import TaskPool as Solo
from celery.concurrency.thread import TaskPool as Threads
from celery.signals import worker_ready

# Which processor is the scheduler's choice: so often the main thread is left to it for so long.
PERIOD_S = 5.0
CHOICE_S = 0.02
# The word of /proc/<pid>/stat that says where a thread ran last, counted from behind its name.
PROCESSOR = 36


class Affinity:
    """The processor of this process. Without `one`, or without a choice, nothing happens."""

    def __init__(self, *, one: bool) -> None:
        able = one and hasattr(os, "sched_setaffinity")
        self.every = frozenset(os.sched_getaffinity(0)) if able else frozenset()
        self.chosen = self.every
        self._thread = threading.local()

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
        """Choose a processor now, and anew from time to time for as long as the process lives."""
        if len(self.every) > 1:
            threading.Thread(target=self._watch, name="affinity", daemon=True).start()

    def choose(self) -> None:
        """Let the scheduler place the main thread, and keep it there."""
        main = os.getpid()
        _place(main, self.every)
        time.sleep(CHOICE_S)
        words = Path(f"/proc/{main}/stat").read_text("ascii").rpartition(")")[2].split()
        self.chosen = frozenset({int(words[PROCESSOR])})
        _place(main, self.chosen)

    def _keep(self, processors: frozenset[int]) -> None:
        # A thread begins where its starter was, so that only a second call may be spared.
        if processors and getattr(self._thread, "kept", None) is not processors:
            self._thread.kept = processors
            _place(0, processors)

    def _watch(self) -> None:
        while True:
            self.choose()
            time.sleep(PERIOD_S)


def _place(thread: int, processors: frozenset[int]) -> None:
    # A container may lose processors while it runs; then the system has placed the thread itself.
    with suppress(OSError):
        os.sched_setaffinity(thread, processors)


def tune_when_ready(affinity: Affinity) -> None:
    """Tune a worker process for short effects as soon as Celery says that it is up."""

    @worker_ready.connect(weak=False)
    def tune(sender: Any, **_: object) -> None:
        # What is loaded by now stays: the collector need not walk through it again and again.
        gc.freeze()
        if isinstance(sender.pool, (Solo, Threads)):
            affinity.watch()
