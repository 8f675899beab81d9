"""The entry of jobs and their graphs in the registry of systems."""

from __future__ import annotations

from interlock.workers.engine.system import System

SYSTEM = System(
    name="jobs",
    effects="interlock.workers.jobs.effects",
    resources=(
        "interlock.workers.gateways.capabilities.registry:open_registry",
        "interlock.workers.jobs.model:open_job_model",
    ),
    commands={"job": "interlock.workers.jobs.cli"},
    submit={
        "job": "interlock.workers.jobs.intake:accept_job",
        "graph": "interlock.workers.jobs.intake:accept_graph",
    },
    counted=("job",),
    shown=("lost", "tally"),
)
