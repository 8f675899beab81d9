"""The fields of a graph's file: what each is called there, and what it is born as.

What a value may be is said by the kernel's own models of a birth; here are only the file's words.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel

from interlock.kernel.machines.jobs.graph.table import Birth as GraphBirth
from interlock.kernel.machines.jobs.graph.table import Limits as GraphLimits
from interlock.kernel.machines.jobs.job.payloads import Birth, Limits
from interlock.workers.jobs.file.doer_fields import PHASES, REVIEW, WORKER
from interlock.workers.jobs.file.field import Field, Parts, apart, one, together
from interlock.workers.specs.values import MONEY, PATH, PRIORITY, SLOTS, SPAN


def job_as_born(parts: Parts) -> Parts:
    """Return a job's parts in the one way to write them: without what is as it always is.

    Raises pydantic's ValidationError if they are none of a job's, or no whole.
    """
    return Birth.model_validate(parts).model_dump(mode="json", exclude_defaults=True)


def graph_as_born(parts: Parts) -> Parts:
    """Return a graph's parts in the same way. Raises as `job_as_born` does."""
    return GraphBirth.model_validate(parts).model_dump(mode="json", exclude_defaults=True)


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
    "description": one(GraphBirth, "description"),
    "slots": one(GraphBirth, "slots", SLOTS),
    "limits": _limits(GraphLimits),
    "remind": one(GraphBirth, "remind_s", SPAN),
    "stewards": one(GraphBirth, "stewards"),
    "on_cancel": one(GraphBirth, "on_cancel"),
    "folder": one(Birth, "folder", PATH),
    "dir": one(Birth, "dir", PATH),
}
# The order is that of a written file.
STEP: Mapping[str, Field] = {
    "description": one(Birth, "description"),
    "objective": one(Birth, "objective"),
    "details": one(Birth, "details"),
    "acceptance": one(Birth, "acceptance"),
    "worker": WORKER,
    "phases": PHASES,
    "review": REVIEW,
    "auto_approve": one(Birth, "auto_approve"),
    "manual": one(Birth, "manual"),
    "hold": one(Birth, "hold"),
    "queue": one(Birth, "queue"),
    "priority": one(Birth, "priority", PRIORITY),
    "limits": _limits(Limits),
    "health": apart(
        {
            "running": one(Birth, "running_s", SPAN),
            "reviewing": one(Birth, "reviewing_s", SPAN),
            "recoveries": one(Birth, "recoveries_max"),
        }
    ),
    "retries": one(Birth, "retries_max"),
    "retry_delay": one(Birth, "retry_delay_s", SPAN),
    "remind": one(Birth, "remind_s", SPAN),
    "stewards": one(Birth, "stewards"),
    "on_cancel": one(Birth, "on_cancel"),
    "folder": one(Birth, "folder", PATH),
    "dir": one(Birth, "dir", PATH),
}
DEFAULTS: Mapping[str, Field] = {
    word: field for word, field in STEP.items() if word not in ("worker", "phases", "dir")
}
