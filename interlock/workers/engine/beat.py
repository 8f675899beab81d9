"""Sends the sweeps for beat, each once a period by a clock that nobody can set."""

from __future__ import annotations

import time
from math import inf
from pathlib import Path
from typing import Any

from celery.beat import ScheduleEntry, Scheduler, SchedulingError
from kombu.exceptions import OperationalError

from interlock.workers.engine.celery_app import count_messages
from interlock.workers.engine.refusals import refusals_of

# With so many messages in its queue, no worker serves a sweep: more of them would not help.
WAITING_MAX = 100
COUNT_PERIOD_S = 60.0


class SweepScheduler(Scheduler):
    """Sends every entry of the schedule at the start, and then once in its period.

    Celery's own scheduler compares wall clocks: after one was set back, it would send nothing until
    the clock has caught up. Nothing is kept on disk, because a sweep that is sent once too often
    does no harm.
    """

    def setup_schedule(self) -> None:
        """Read the schedule of the app."""
        self.merge_inplace(self.app.conf.beat_schedule)
        self._due_at = dict.fromkeys(self.schedule, 0.0)
        self._counts: dict[str, tuple[float, int]] = {}
        self._refusals = refusals_of("the broker")

    def tick(self, *args: Any, **options: Any) -> float:
        """Send what is due. Return the seconds until the next is due."""
        del args, options
        file: Path | None = self.app.liveness_file
        if file is not None:
            file.touch()
        for name, entry in self.schedule.items():
            if time.monotonic() >= self._due_at[name]:
                self._due_at[name] = time.monotonic() + entry.schedule.run_every.total_seconds()
                if not self._is_left_waiting(entry):
                    self.apply_entry(entry, producer=self.producer)
        return max(0.0, min(self._due_at.values()) - time.monotonic())

    def apply_async(self, entry: ScheduleEntry, *args: Any, **options: Any) -> Any:
        """Send one sweep. A broker that refuses is logged once; Celery logs each with a trace."""
        try:
            sent = super().apply_async(entry, *args, **options)
        except SchedulingError as failure:
            if not isinstance(failure.__context__, OperationalError):
                raise
            self._refusals.begin(failure.__context__)
            return None
        self._refusals.end()
        return sent

    def _is_left_waiting(self, entry: ScheduleEntry) -> bool:
        """Whether many messages wait in an entry's queue, counted once a minute while few do."""
        queue = entry.options["queue"]
        counted_at, waiting = self._counts.get(queue, (-inf, 0))
        if waiting > WAITING_MAX or time.monotonic() - counted_at >= COUNT_PERIOD_S:
            waiting = count_messages(self.app, [queue])[queue]
            self._counts[queue] = (time.monotonic(), waiting)
        return waiting > WAITING_MAX
