"""A file that workers and beat touch while their loops turn, for probes; it asks no broker."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

from celery import Celery, bootsteps
from celery.beat import PersistentScheduler

PERIOD_S = 2.0
# A worker's loop that has not turned for so long is wedged: the file is left to age.
WEDGED_S = 20.0


def show_alive(app: Celery, file: Path | None) -> None:
    """Let the app's worker, or its beat, touch this file; without one nothing is watched."""
    if file is not None:
        app.alive_file = file
        app.steps["consumer"].add(Alive)
        app.conf.beat_scheduler = "interlock.workers.engine.alive:Scheduler"


class Alive(bootsteps.StartStopStep):
    """Touches the file while the consumer's loop turns, and while it has no broker to turn for.

    A broker that is away is no reason to restart a worker, so only a loop that should turn and does
    not lets the file age.
    """

    def __init__(self, consumer: Any, **options: Any) -> None:
        super().__init__(consumer, **options)
        self.file: Path = consumer.app.alive_file
        self.turned_at: float | None = None  # None: the broker is away
        self._timer: Any = None
        threading.Thread(target=self._touch, name="alive", daemon=True).start()

    def start(self, consumer: Any) -> None:
        """Watch the loop from now on: the broker is there."""
        self._turn()
        self._timer = consumer.timer.call_repeatedly(PERIOD_S, self._turn)

    def stop(self, consumer: Any) -> None:
        """Watch it no more: the broker went away, or the worker ends."""
        del consumer
        if self._timer is not None:
            self._timer.cancel()
        self.turned_at = None

    def _turn(self) -> None:
        self.turned_at = time.monotonic()

    def _touch(self) -> None:
        while True:
            turned_at = self.turned_at
            if turned_at is None or time.monotonic() - turned_at < WEDGED_S:
                self.file.touch()
            time.sleep(PERIOD_S)


class Scheduler(PersistentScheduler):
    """Celery's scheduler, which touches the file at each tick."""

    def tick(self, *args: Any, **options: Any) -> Any:
        """Touch the file and send what is due."""
        self.app.alive_file.touch()
        return super().tick(*args, **options)
