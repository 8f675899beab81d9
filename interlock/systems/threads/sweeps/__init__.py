"""The sweeps of threads, one per file. A new sweep needs a place in SWEEPS."""

from __future__ import annotations

from interlock.systems.threads.sweeps import canary
from interlock.workers.engine.sweeper import Sweep

SWEEPS: tuple[Sweep, ...] = (canary.SWEEP,)
