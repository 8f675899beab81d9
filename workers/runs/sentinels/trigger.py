"""What happened in a codon, and whether a sentinel is triggered by it; it knows no time of its own.

A sequence is a subsequence: other events may come in between. Each event counts for one match, the
earliest it fits into, and after a match the sequence begins anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened in the codon. `data` is JSON, the time is ms since the epoch."""

    name: str
    at_ms: int
    data: Mapping[str, Any]

    def stored(self) -> dict[str, Any]:
        """Return it as JSON carries it."""
        return {"name": self.name, "at_ms": self.at_ms, "data": dict(self.data)}


@dataclass(frozen=True, slots=True)
class Trigger:
    """The events that trigger a sentinel: any of the names, or all of them in their order."""

    names: tuple[str, ...]
    ordered: bool

    def advance(
        self, seen: tuple[Event, ...], event: Event
    ) -> tuple[tuple[Event, ...], tuple[Event, ...]]:
        """Return what is seen of a match now, and the whole match if the event completed one."""
        if not self.ordered:
            return (), (event,) if event.name in self.names else ()
        if event.name != self.names[len(seen)]:
            return seen, ()
        seen = (*seen, event)
        return ((), seen) if len(seen) == len(self.names) else (seen, ())
