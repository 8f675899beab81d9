"""The sweeps of threads, one per file. A new sweep needs a place in SWEEPS."""

from __future__ import annotations

from interlock.system.records import Sweep
from interlock.systems.threads.sweeps import canary

SWEEPS: tuple[Sweep, ...] = (canary.SWEEP,)
