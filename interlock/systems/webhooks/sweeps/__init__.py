"""The sweeps of webhooks, one per file. A new sweep needs a place in SWEEPS."""

from __future__ import annotations

from interlock.system.records import Sweep
from interlock.systems.webhooks.sweeps import deliveries

SWEEPS: tuple[Sweep, ...] = (deliveries.SWEEP,)
