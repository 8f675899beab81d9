"""Touches a file while a worker's or beat's loop turns, for liveness probes."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

from celery import Celery, bootsteps

PERIOD_S = 2.0
# If a worker's loop has not turned for so long, the file is not touched any more.
STUCK_S = 20.0


def write_liveness_file(app: Celery, file: Path | None) -> None:
    """Let the app's worker or beat touch this file; None turns that off."""
    app.liveness_file = file
    if file is not None:
        app.steps["consumer"].add(LivenessStep)


class LivenessStep(bootsteps.StartStopStep):
    """Touches the file while the consumer's loop turns, and while the broker is away.

    A broker that is away is no reason to restart a worker. So the file ages only if the broker is
    there and the loop does not turn.
    """

    def __init__(self, consumer: Any, **options: Any) -> None:
        super().__init__(consumer, **options)
        self.file: Path = consumer.app.liveness_file
        self.turned_at: float | None = None  # None: the broker is away
        self._timer: Any = None
        threading.Thread(target=self._touch, name="liveness", daemon=True).start()

    def start(self, consumer: Any) -> None:
        """Watch the loop from now on, because the broker is there."""
        self._turn()
        self._timer = consumer.timer.call_repeatedly(PERIOD_S, self._turn)

    def stop(self, consumer: Any) -> None:
        """Stop watching: the broker went away, or the worker ends."""
        del consumer
        if self._timer is not None:
            self._timer.cancel()
        self.turned_at = None

    def _turn(self) -> None:
        self.turned_at = time.monotonic()

    def _touch(self) -> None:
        while True:
            turned_at = self.turned_at
            if turned_at is None or time.monotonic() - turned_at < STUCK_S:
                self.file.touch()
            time.sleep(PERIOD_S)
