"""The sweeps of coding tasks, one per file. A new sweep needs a place in SWEEPS."""

from __future__ import annotations

from interlock.system.records import Sweep
from interlock.systems.tasks.sweeps import assignments

SWEEPS: tuple[Sweep, ...] = (assignments.SWEEP,)
