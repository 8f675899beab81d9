"""The entry of jobs and their graphs in the registry of systems."""

from __future__ import annotations

from interlock.workers.engine.system import System

SYSTEM = System(
    name="jobs",
    effects="interlock.workers.jobs.effects",
    commands={"job": "interlock.workers.jobs.cli"},
    submit={
        "job": "interlock.workers.jobs.intake:accept_job",
        "graph": "interlock.workers.jobs.intake:accept_graph",
    },
    counted=("job",),
    shown=("lost", "tally"),
)
