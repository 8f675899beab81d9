"""The fields of a graph's file: what each is called there, and what it is born as.

What a value may be is said by the kernel's own models of a birth; here are only the file's words.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel

from interlock.kernel.machines.jobs.graph.payloads import GraphLimits, NewGraph
from interlock.kernel.machines.jobs.job.payloads import JobLimits, NewJob
from interlock.workers.jobs.file.doer_fields import PHASES, REVIEW, WORKER
from interlock.workers.jobs.file.field import Field, Parts, apart, one, together
from interlock.workers.specs.values import MONEY, PATH, PRIORITY, SLOTS, SPAN


def job_as_born(parts: Parts) -> Parts:
    """Return a job's parts in the one way to write them: without what is as it always is.

    Raises pydantic's ValidationError if they are none of a job's, or no whole.
    """
    return NewJob.model_validate(parts).model_dump(mode="json", exclude_defaults=True)


def graph_as_born(parts: Parts) -> Parts:
    """Return a graph's parts in the same way. Raises as `job_as_born` does."""
    return NewGraph.model_validate(parts).model_dump(mode="json", exclude_defaults=True)


def _limits(model: type[BaseModel]) -> Field:
    fields = {
        "cost": one(model, "cost_micro", MONEY),
        "time": one(model, "time_s", SPAN),
        "iterations": one(model, "iterations"),
    }
    return together("limits", fields)


# What a step has of its graph if neither it nor the defaults say otherwise.
INHERITED = ("remind_s", "stewards", "on_cancel", "folder")
GRAPH: Mapping[str, Field] = {
    "description": one(NewGraph, "description"),
    "slots": one(NewGraph, "slots", SLOTS),
    "limits": _limits(GraphLimits),
    "remind": one(NewGraph, "remind_s", SPAN),
    "stewards": one(NewGraph, "stewards"),
    "on_cancel": one(NewGraph, "on_cancel"),
    "folder": one(NewJob, "folder", PATH),
    "dir": one(NewJob, "dir", PATH),
}
# The order is that of a written file.
STEP: Mapping[str, Field] = {
    "description": one(NewJob, "description"),
    "objective": one(NewJob, "objective"),
    "details": one(NewJob, "details"),
    "acceptance": one(NewJob, "acceptance"),
    "worker": WORKER,
    "phases": PHASES,
    "review": REVIEW,
    "auto_approve": one(NewJob, "auto_approve"),
    "manual": one(NewJob, "manual"),
    "hold": one(NewJob, "hold"),
    "queue": one(NewJob, "queue"),
    "priority": one(NewJob, "priority", PRIORITY),
    "limits": _limits(JobLimits),
    "health": apart(
        {
            "running": one(NewJob, "running_s", SPAN),
            "reviewing": one(NewJob, "reviewing_s", SPAN),
            "recoveries": one(NewJob, "recoveries_max"),
        }
    ),
    "retries": one(NewJob, "retries_max"),
    "retry_delay": one(NewJob, "retry_delay_s", SPAN),
    "remind": one(NewJob, "remind_s", SPAN),
    "stewards": one(NewJob, "stewards"),
    "on_cancel": one(NewJob, "on_cancel"),
    "folder": one(NewJob, "folder", PATH),
    "dir": one(NewJob, "dir", PATH),
}
DEFAULTS: Mapping[str, Field] = {
    word: field for word, field in STEP.items() if word not in ("worker", "phases", "dir")
}
