"""The entry of long-lived agents in the registry of systems."""

from __future__ import annotations

from interlock import CommandRow, Panel, System

HELP = "Long-lived agents and their mail."

BY_HAND = {
    "loop": "agent start {root}",
    "loop.operator_stop": "agent stop {root}",
    "loop.fatal_error": "agent stop {root} --fatal --reason ...",
}

SYSTEM = System(
    name="loops",
    machines={"loop": "interlock.systems.loops.machines.loop.table:LOOP"},
    effects="interlock.systems.loops.effects",
    commands=(CommandRow("agent", "interlock.systems.loops.cli:app", Panel.WORK, HELP),),
    submit={"loop": "interlock.systems.loops.intake:accept"},
    messages={"send": "interlock.systems.loops.intake:send"},
    outputs={"loop": "interlock.systems.loops.client:output_place"},
    counted=("loop",),
    by_hand="interlock.systems.loops.system:BY_HAND",
    asked={"loop": ("instructions",)},
    came={"loop": ("last", "stopped")},
    page="interlock.systems.loops.page:PAGE",
    tools="interlock.systems.loops.agent_tools",
    folders=("agents",),
)
