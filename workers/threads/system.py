"""The line of threads in the registry."""

from __future__ import annotations

from interlock.workers.engine.system import System

SYSTEM = System(
    name="threads",
    effects="interlock.workers.threads.effects",
    commands={"": "interlock.workers.threads.cli"},
    counted=("thread",),
    shown=("result", "summary", "failure", "handed_off", "reason"),
)
