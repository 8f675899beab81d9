"""The sweeps that beat drives. A new one needs its module here."""

from __future__ import annotations

from workers.sweep import Sweep
from workers.sweeps import assignments, orphans, prune, stalls

SWEEPS: tuple[Sweep, ...] = (orphans.SWEEP, stalls.SWEEP, assignments.SWEEP, prune.SWEEP)
