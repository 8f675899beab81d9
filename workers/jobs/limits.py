"""What a job or its graph has used of what it may use; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from interlock.kernel.record import Record

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
