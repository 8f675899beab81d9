"""The entry of long-lived agents in the registry of systems."""

from __future__ import annotations

from interlock.workers.engine.system import System

SYSTEM = System(
    name="loops",
    effects="interlock.workers.loops.effects",
    commands={"agent": "interlock.workers.loops.cli"},
    counted=("loop",),
)
