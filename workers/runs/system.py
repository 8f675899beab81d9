"""The entry of runs of codons in the registry of systems."""

from __future__ import annotations

from interlock.workers.engine.system import System

SYSTEM = System(
    name="runs",
    effects="interlock.workers.runs.effects",
    commands={"run": "interlock.workers.runs.cli"},
    counted=("run",),
)
