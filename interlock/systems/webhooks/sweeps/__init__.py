"""The sweeps of webhooks, one per file. A new sweep needs a place in SWEEPS."""

from __future__ import annotations

from interlock.systems.webhooks.sweeps import deliveries
from interlock.workers.engine.sweeper import Sweep

SWEEPS: tuple[Sweep, ...] = (deliveries.SWEEP,)
