"""Tells who may decide about a job or a graph: its stewards, or everybody if it names none.

Pure.
"""

from __future__ import annotations

from interlock import Ask
from interlock.systems.jobs.machines.graph.data import GraphData
from interlock.systems.jobs.machines.job.data import JobData

STEWARDS_SHOWN_MAX = 5


def steward(ask: Ask[GraphData] | Ask[JobData]) -> bool:
    """Whether one of the record's stewards decides, or the record names none."""
    return not ask.data["stewards"] or ask.payload.get("by") in ask.data["stewards"]


def only_stewards(ask: Ask[GraphData] | Ask[JobData]) -> str:
    """Say that the caller is no steward, who is one, and how to act as one of them."""
    stewards = ask.data["stewards"]
    more = len(stewards) - STEWARDS_SHOWN_MAX
    others = [f"{more} more"] if more > 0 else []
    names = " or ".join([*stewards[:STEWARDS_SHOWN_MAX], *others])
    name = stewards[0] if len(stewards) == 1 else "NAME"
    return f"{ask.payload['by']} is no steward; only {names} may decide: add --as {name}"
