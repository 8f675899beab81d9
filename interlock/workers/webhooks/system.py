"""The entry of webhooks in the registry of systems."""

from __future__ import annotations

from interlock.workers.engine.system import CommandRow, Panel, System

HELP = "Deliveries to webhooks that have failed."

SYSTEM = System(
    name="webhooks",
    effects="interlock.workers.webhooks.effects",
    sweeps="interlock.workers.webhooks.sweeps",
    resources=(
        "interlock.workers.webhooks.endpoints:open_endpoints",
        "interlock.workers.engine.escalation:check_escalations",
    ),
    commands=(CommandRow("webhook", "interlock.workers.webhooks.cli:app", Panel.OPERATE, HELP),),
    counted=("delivery",),
    shown=("endpoint", "kind", "record", "failures", "failure", "dropped"),
)
