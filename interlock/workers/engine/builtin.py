"""The effects and sweeps that every system has, as the first entry of the registry."""

from __future__ import annotations

from interlock.workers.engine.system import System

BUILTIN = System(
    name="engine",
    effects="interlock.workers.engine.effects",
    sweeps="interlock.workers.engine.sweeps",
    resources=(
        "interlock.workers.gateways.card_folder:open_card_folder",
        "interlock.workers.engine.escalation:check_escalations",
    ),
)
