"""The sweeps of coding tasks, one a file. A new one needs its line here."""

from __future__ import annotations

from interlock.workers.engine.sweeper import Sweep
from interlock.workers.tasks.sweeps import assignments

SWEEPS: tuple[Sweep, ...] = (assignments.SWEEP,)
