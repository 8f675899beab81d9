"""What a job or its graph has used of what it may use; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from interlock.kernel.errors import CallError, OpIdReusedError
from interlock.kernel.event import Cause
from interlock.kernel.record import Record
from interlock.kernel.store.commands import Call, Jot, Warrant
from interlock.workers.engine.work import Work

WARNS_AT = 0.75
MICRO = 1_000_000


@dataclass(frozen=True, slots=True)
class Usage:
    """How much of one limit is used: US dollars, seconds at work, or runs of workers."""

    limit: str
    of: str
    used: float
    allowed: float

    @property
    def reached(self) -> bool:
        """Whether nothing is left."""
        return self.used >= self.allowed

    @property
    def warns(self) -> bool:
        """Whether most of it is used."""
        return self.used >= WARNS_AT * self.allowed

    def payload(self) -> dict[str, Any]:
        """Return it as a trigger carries it."""
        return {"limit": self.limit, "used": self.used, "allowed": self.allowed}


def usages(record: Record, of: str) -> Iterator[Usage]:
    """Yield what is used of each limit that a job or graph has. Held money counts as used."""
    limits: Mapping[str, Any] = record.data["limits"]
    counters = record.counters
    spent = sum(counters.get(f"tree.{name}", 0) for name in ("spent", "reserved", "residue"))
    found = {
        "cost": (spent / MICRO, limits.get("cost_micro"), MICRO),
        "time": (counters.get("tree.time_ms", 0) / 1_000, limits.get("time_s"), 1),
        "iterations": (counters.get("tree.runs", 0), limits.get("iterations"), 1),
    }
    for name, (used, allowed, scale) in found.items():
        if allowed is not None:
            yield Usage(name, of, used, allowed / scale)


def used(record: Record, graph: Record | None) -> list[Usage]:
    """Return what is used of each limit of a job and of its graph."""
    found = list(usages(record, "job"))
    return found + (list(usages(graph, "graph")) if graph is not None else [])


def time_left_ms(found: list[Usage]) -> int | None:
    """Return how long it may still work, where its time is limited."""
    left = [one.allowed - one.used for one in found if one.limit == "time"]
    return max(1, int(min(left) * 1_000)) if left else None


HALTED = "halted"


def warn(work: Work, found: list[Usage]) -> None:
    """Note each limit of which most is used, once."""
    for one in found:
        if one.warns:
            jot = Jot("limit_warning", {**one.payload(), "of": one.of})
            op_id = f"limit:{one.of}:{one.limit}:{one.allowed:g}"
            with suppress(OpIdReusedError):  # it was warned when less of it was used
                work.dispatch.note(work.record, jot, op_id=op_id)


def is_halted(work: Work, graph: Record, found: list[Usage]) -> bool:
    """Whether a graph starts nothing now; the first job to see a limit reached says so."""
    if graph.state == HALTED:
        return True
    reached = next((one for one in found if one.reached and one.of == "graph"), None)
    if reached is not None:
        halt(work, graph, reached)
    return reached is not None


def halt(work: Work, graph: Record, reached: Usage) -> None:
    """Halt a graph: its steward is asked once, not about each of its jobs."""
    call = Call(
        cause=Cause(work.lease.name, f"seen by {work.record.id}"),
        op_id=f"limit:{graph.entered}:{reached.limit}:{reached.allowed:g}",
        warrant=Warrant.party(work.lease.name),
    )
    with suppress(CallError):  # another job was faster, or a steward has raised it
        work.dispatch.fire(graph.id, "limit_reached", reached.payload(), call)
