"""The events of a codon, and which of them trigger a sentinel. Pure.

A sequence also matches where other events come in between. An event counts for one match only, the
earliest that it fits into, and after a match the sequence starts again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class SentinelEvent:
    """An event of the codon. `data` is JSON, the time is ms since the epoch."""

    name: str
    at_ms: int
    data: Mapping[str, Any]

    def stored(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {"name": self.name, "at_ms": self.at_ms, "data": dict(self.data)}


@dataclass(frozen=True, slots=True)
class SentinelTrigger:
    """The events that trigger a sentinel: any of the names, or all of them in their order."""

    names: tuple[str, ...]
    ordered: bool

    def advance(
        self, partial: tuple[SentinelEvent, ...], event: SentinelEvent
    ) -> tuple[tuple[SentinelEvent, ...], tuple[SentinelEvent, ...]]:
        """Return the events of an incomplete match, and the match that this event completes."""
        if not self.ordered:
            return (), (event,) if event.name in self.names else ()
        if event.name != self.names[len(partial)]:
            return partial, ()
        partial = (*partial, event)
        return ((), partial) if len(partial) == len(self.names) else (partial, ())
