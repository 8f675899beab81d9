"""The entry of runs of codons in the registry of systems."""

from __future__ import annotations

from interlock import CommandRow, Panel, System

HELP = "Runs: ordered programmes of agent steps over a folder."

# These commands run in the folder of the run, or get it as their argument.
BY_HAND = {
    "run": "run continue",
    "run.stop_requested": "run stop",
    "codon.skip_requested": "run skip",
    "workspace.close": "run close",
}

SYSTEM = System(
    name="runs",
    machines={
        name: f"interlock.systems.runs.machines.{name}.table:{name.upper()}"
        for name in ("workspace", "run", "codon")
    },
    effects="interlock.systems.runs.effects",
    commands=(CommandRow("run", "interlock.systems.runs.cli:app", Panel.WORK, HELP),),
    submit={"run": "interlock.systems.runs.intake:accept"},
    diffs={"run": "interlock.systems.runs.checkpoint_diff:SOURCE"},
    counted=("run",),
    by_hand="interlock.systems.runs.system:BY_HAND",
    page="interlock.systems.runs.page:PAGE",
    folders=("runs",),
)
