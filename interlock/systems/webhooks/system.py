"""The entry of webhooks in the registry of systems."""

from __future__ import annotations

from interlock import CommandRow, Panel, System

HELP = "Deliveries to webhooks that have failed."

SYSTEM = System(
    name="webhooks",
    settings="interlock.systems.webhooks.settings:WebhookSettings",
    machines={"delivery": "interlock.systems.webhooks.machines.delivery.table:DELIVERY"},
    effects="interlock.systems.webhooks.effects",
    sweeps="interlock.systems.webhooks.sweeps",
    resources=("interlock.systems.webhooks.endpoints:open_endpoints",),
    commands=(CommandRow("webhook", "interlock.systems.webhooks.cli:app", Panel.OPERATE, HELP),),
    counted=("delivery",),
    asked={"delivery": ("endpoint", "kind", "record")},
    came={"delivery": ("failure", "dropped")},
    shown=("endpoint", "kind", "record", "failures", "failure", "dropped"),
)
