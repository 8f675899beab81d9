"""The entry of long-lived agents in the registry of systems."""

from __future__ import annotations

from interlock.workers.engine.system import CommandRow, Panel, System

HELP = "Long-lived agents and their mail."

SYSTEM = System(
    name="loops",
    effects="interlock.workers.loops.effects",
    commands=(CommandRow("agent", "interlock.workers.loops.cli:app", Panel.WORK, HELP),),
    submit={"loop": "interlock.workers.loops.intake:accept"},
    messages={"send": "interlock.workers.loops.intake:send"},
    outputs={"loop": "interlock.workers.loops.output_source:output_source"},
    counted=("loop",),
    page="interlock.workers.loops.page:PAGE",
)
