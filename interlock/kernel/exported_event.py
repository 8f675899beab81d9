"""Events of the log in their published form, for audit, replay and metrics. Pure.

The log keeps the `Event` of interlock/kernel/event.py, and that is the one source; what is here is
derived from it and from the tables of the machines.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from interlock.kernel.event import Event
from interlock.kernel.machine import Machine
from interlock.kernel.reason import AbortReason, TransitionReason
from interlock.kernel.table import ORPHANS, PERSON, PRODUCER, STALLS

NAMED = "person:"
# People and producers that give no name, and the programs that act for them.
OUTSIDE = frozenset({PERSON, PRODUCER, "cli", "intake", "demo", "mcp"})
SWEEPS = frozenset({ORPHANS, STALLS, "move"})

# The states that contradict a reason which says that all went well: it is left out of them. A
# recovery reports its aim, and an agent may report anything.
CONTRADICTING = ("failed", "cancelled")

_TRANSITION_REASONS: Mapping[str, TransitionReason] = {
    str(reason): reason for reason in TransitionReason
}
_ABORT_REASONS: Mapping[str, AbortReason] = {str(reason): reason for reason in AbortReason}


@dataclass(frozen=True, slots=True)
class LifecycleEvent:
    """One accepted transition. `timestamp` is in Unix seconds, `from_status` '' at the creation.

    The last two are ours: the number of the event in its record's log, and its trigger.
    """

    timestamp: float
    entity_type: str
    entity_id: str
    from_status: str
    to_status: str
    actor: str
    reason: str
    transition_reason: TransitionReason | None
    abort_reason: AbortReason | None
    version: int
    trigger: str


class LifecycleEvents:
    """Derives published events from the log, by the tables of these machines."""

    def __init__(self, machines: Mapping[str, Machine]) -> None:
        self._components = components(machines)
        # The closed list of actors: a name that is not in it is a person's.
        self.actors = self._components | OUTSIDE
        self._rows = {
            (machine.name, str(row.source), str(row.trigger), str(row.target)): row
            for machine in machines.values()
            for row in machine.transitions
        }

    def published(self, event: Event, machine_name: str) -> LifecycleEvent:
        """Return the published form of an event, of a record of this machine."""
        actor = self.actor(event.cause.actor)
        abort = _ABORT_REASONS.get(_text(event.payload, "abort"))
        return LifecycleEvent(
            timestamp=event.at_ms / 1_000,
            entity_type=machine_name,
            entity_id=event.record_id,
            from_status=event.source,
            to_status=event.target,
            actor=actor,
            reason=event.because,
            transition_reason=self._transition_reason(event, machine_name, actor, abort),
            abort_reason=abort,
            version=event.version,
            trigger=event.trigger,
        )

    def actor(self, name: str) -> str:
        """Return an actor of the closed list, or a person's name marked as one."""
        if name in self.actors or name.startswith(NAMED):
            return name
        return f"{NAMED}{name}" if name else PERSON

    def _transition_reason(
        self, event: Event, machine_name: str, actor: str, abort: AbortReason | None
    ) -> TransitionReason | None:
        """Return the reason of the payload, the one that an abort means, or that of the row."""
        given = _TRANSITION_REASONS.get(_text(event.payload, "why"))
        if given and not (given.ends_well and event.target in CONTRADICTING):
            return given
        if abort is not None:
            return abort.why
        row = self._rows.get((machine_name, event.source, event.trigger, event.target))
        if row is None:
            return None
        by_hand = None if actor in self._components else row.reason_by_hand
        return by_hand or row.reason


def components(machines: Mapping[str, Machine]) -> frozenset[str]:
    """Return the names under which parts of Interlock act: effects, sweeps, and moves."""
    effects = (name for machine in machines.values() for name in machine.effects)
    rows = (row for machine in machines.values() for row in machine.transitions)
    return SWEEPS.union(effects, (name for row in rows for name in row.by)) - {PERSON, PRODUCER}


def _text(payload: Mapping[str, Any], name: str) -> str:
    value = payload.get(name)
    return value if isinstance(value, str) else ""
