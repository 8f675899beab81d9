"""The limits of a job and its graph: how much is used, when to warn, and when a graph halts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from interlock import CallError, EffectWork
from interlock.system.tables import MICRO, Record
from interlock.systems.jobs.machines.graph.data import GraphData
from interlock.systems.jobs.machines.graph.table import State, Trigger
from interlock.systems.jobs.machines.job.data import JobData

JOB, GRAPH = "job", "graph"
WARNING_SHARE = 0.75  # of a limit; from there on a warning is shown


@dataclass(frozen=True, slots=True)
class LimitUsage:
    """How much of one limit is used: US dollars, seconds of work, or runs of workers.

    The owner of the limit is JOB or GRAPH.
    """

    limit: str
    owner: str
    used: float
    allowed: float

    @property
    def reached(self) -> bool:
        """Whether nothing of the limit is left."""
        return self.used >= self.allowed

    @property
    def warns(self) -> bool:
        """Whether so much of the limit is used that people are warned."""
        return self.used >= WARNING_SHARE * self.allowed

    def payload(self) -> dict[str, Any]:
        """Return the usage as the payload of a trigger."""
        return {"limit": self.limit, "used": self.used, "allowed": self.allowed}


def usages(record: Record[JobData] | Record[GraphData], owner: str) -> Iterator[LimitUsage]:
    """Yield the usage of each limit of a job or graph.

    Money that is only reserved may be given back: an attempt waits for it when it reserves its own.
    """
    limits, counters = record.data["limits"], record.counters
    spent = sum(counters.get(f"{kind}.spent", 0) for kind in ("tree", "residue"))
    found = {
        "cost": (spent / MICRO, limits.get("cost_micro"), MICRO),
        "time": (counters.get("tree.time_ms", 0) / 1_000, limits.get("time_s"), 1),
        "iterations": (counters.get("tree.runs", 0), limits.get("iterations"), 1),
    }
    for name, (used, allowed, scale) in found.items():
        if allowed is not None:
            yield LimitUsage(name, owner, used, allowed / scale)


def usages_of_job(record: Record[JobData], graph: Record[GraphData] | None) -> list[LimitUsage]:
    """Return the usage of each limit of a job and of its graph."""
    found = list(usages(record, JOB))
    return found + (list(usages(graph, GRAPH)) if graph is not None else [])


def time_left_ms(found: list[LimitUsage]) -> int | None:
    """Return how long a job may still work; None if no limit bounds its time."""
    left = [usage.allowed - usage.used for usage in found if usage.limit == "time"]
    return max(1, int(min(left) * 1_000)) if left else None


def note_warnings(work: EffectWork[JobData], found: list[LimitUsage]) -> None:
    """Write a note to the job's log, once for each limit of which most is used."""
    for usage in found:
        if usage.warns:
            detail = {**usage.payload(), "of": usage.owner}
            op_id = f"limit:{usage.owner}:{usage.limit}:{usage.allowed:g}"
            # Warned before, when less of the limit was used.
            if not work.records.was_made(work.record.id, op_id):
                work.records.note(work.record, "limit_warning", detail, op_id=op_id)


def is_halted(work: EffectWork[JobData], graph: Record[GraphData], found: list[LimitUsage]) -> bool:
    """Whether a graph starts no jobs now; halt the graph if one of its limits is reached."""
    if graph.state == State.HALTED:
        return True
    reached = next((usage for usage in found if usage.reached and usage.owner == GRAPH), None)
    if reached is not None:
        halt_graph(work, graph, reached)
    return reached is not None


def halt_graph(work: EffectWork[JobData], graph: Record[GraphData], reached: LimitUsage) -> None:
    """Halt a graph: its steward is asked once, and not once for each of its jobs."""
    op_id = f"limit:{graph.entered}:{reached.limit}:{reached.allowed:g}"
    # Another job may have halted the graph first, or a steward has raised the limit.
    with suppress(CallError):
        work.records.fire(
            graph.id,
            Trigger.LIMIT_REACHED,
            reached.payload(),
            op_id=op_id,
            reason=f"seen by {work.record.id}",
        )
