"""The entry of threads in the registry of systems."""

from __future__ import annotations

from interlock.workers.engine.system import System

SYSTEM = System(
    name="threads",
    effects="interlock.workers.threads.effects",
    resources=(
        "interlock.workers.threads.inference.model:open_model",
        "interlock.workers.gateways.capabilities.registry:open_registry",
        "interlock.workers.gateways.sources:open_sources",
    ),
    commands={"": "interlock.workers.threads.cli"},
    counted=("thread",),
    shown=("result", "summary", "failure", "handed_off", "reason"),
)
