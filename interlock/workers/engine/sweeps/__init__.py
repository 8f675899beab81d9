"""The sweeps that serve every system, one per file. A new one needs its line here."""

from __future__ import annotations

from interlock.workers.engine.sweeper import Sweep
from interlock.workers.engine.sweeps import moves, orphans, prune, slots, stalls

SWEEPS: tuple[Sweep, ...] = (orphans.SWEEP, stalls.SWEEP, slots.SWEEP, prune.SWEEP, moves.SWEEP)
