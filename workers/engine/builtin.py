"""What every system has: its line in the registry is the first."""

from __future__ import annotations

from interlock.workers.engine.system import System

BUILTIN = System(
    name="engine",
    effects="interlock.workers.engine.effects",
    sweeps="interlock.workers.engine.sweeps",
    resources=("interlock.workers.gateways.cards:open_surfaces",),
)
