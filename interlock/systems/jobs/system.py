"""The entry of jobs and their graphs in the registry of systems."""

from __future__ import annotations

from interlock import CommandRow, Panel, System

HELP = "Jobs in a graph: they are run, reviewed and signed off. See docs/jobs.md."

SYSTEM = System(
    name="jobs",
    settings="interlock.systems.jobs.settings:JobSettings",
    machines={
        name: f"interlock.systems.jobs.machines.{name}.table:{name.upper()}"
        for name in ("job", "graph")
    },
    effects="interlock.systems.jobs.effects",
    resources=("interlock.system.models:open_model",),
    commands=(CommandRow("job", "interlock.systems.jobs.cli:app", Panel.WORK, HELP),),
    submit={
        "job": "interlock.systems.jobs.intake:accept_job",
        "graph": "interlock.systems.jobs.intake:accept_graph",
    },
    evidence={"job": "interlock.systems.jobs.card_evidence:evidence"},
    counted=("job",),
    asked={"job": ("description",), "graph": ("description",)},
    came={"job": ("summary", "review_result", "failure", "end")},
    shown=("lost", "tally"),
    by_hand="interlock.systems.jobs.verbs:BY_HAND",
    page="interlock.systems.jobs.page:PAGE",
    folders=("jobs",),
)
