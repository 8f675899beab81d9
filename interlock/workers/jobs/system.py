"""The entry of jobs and their graphs in the registry of systems."""

from __future__ import annotations

from interlock.workers.engine.system import CommandRow, Panel, System

HELP = "Jobs in a graph: they are run, reviewed and signed off. See docs/jobs.md."

SYSTEM = System(
    name="jobs",
    effects="interlock.workers.jobs.effects",
    resources=(
        "interlock.workers.gateways.capabilities.registry:open_registry",
        "interlock.workers.jobs.model:open_job_model",
    ),
    commands=(CommandRow("job", "interlock.workers.jobs.cli:app", Panel.WORK, HELP),),
    submit={
        "job": "interlock.workers.jobs.intake:accept_job",
        "graph": "interlock.workers.jobs.intake:accept_graph",
    },
    evidence={"job": "interlock.workers.jobs.card_evidence:evidence"},
    counted=("job",),
    shown=("lost", "tally"),
    page="interlock.workers.jobs.page:PAGE",
)
