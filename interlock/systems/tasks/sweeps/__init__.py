"""The sweeps of coding tasks, one per file. A new sweep needs a place in SWEEPS."""

from __future__ import annotations

from interlock.systems.tasks.sweeps import assignments
from interlock.workers.engine.sweeper import Sweep

SWEEPS: tuple[Sweep, ...] = (assignments.SWEEP,)
