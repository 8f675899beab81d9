"""The entry of runs of codons in the registry of systems."""

from __future__ import annotations

from interlock.workers.engine.system import CommandRow, Panel, System

HELP = "Runs: ordered programmes of agent steps over a folder."

SYSTEM = System(
    name="runs",
    effects="interlock.workers.runs.effects",
    commands=(CommandRow("run", "interlock.workers.runs.cli:app", Panel.WORK, HELP),),
    submit={"run": "interlock.workers.runs.intake:accept"},
    diffs={"run": "interlock.workers.runs.checkpoint_diff:SOURCE"},
    counted=("run",),
    page="interlock.workers.runs.page:PAGE",
)
