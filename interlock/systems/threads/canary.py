"""Canaries: small threads that Interlock submits itself, to see that work gets through."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from interlock import Terminal
from interlock.system.pages import Health, Link, Sentence, Time
from interlock.system.records import Records
from interlock.system.tables import Record
from interlock.system.text import age
from interlock.systems.threads.machines.canary.table import CANARY
from interlock.systems.threads.machines.thread.names import State
from interlock.systems.threads.settings import ThreadSettings

DONE = "newest canary that is done"
MEANING = "How long ago the newest canary that is done was submitted."

# So many are kept at most: where none comes to its end, no further one is submitted.
CANARIES_MAX = 10
# After so long without an end, a canary is late and another one is submitted beside it.
PATIENCE_S = 180.0

# Everything that a model or a person would say is given, so neither is asked. Where it cannot go on
# all the same, such as after a failure, it would ask a person: it expires instead.
PAYLOAD: Mapping[str, Any] = {
    "inciting": {"source": "canary", "title": "A canary: it shows that work gets through"},
    "policy": "end_to_end",
    "given": {
        "intent": "show that work gets through",
        "item_ids": [],
        "action": {
            "capability": "interlock_canary",
            "summary": "do nothing",
            "irreversibility": "low",
            "regret_potential": "low",
            "risk_amplifier": False,
        },
    },
    "expires_s": int(PATIENCE_S),
}


@dataclass(frozen=True, slots=True)
class Canaries:
    """The canaries that are in the store, the newest first, and the time of the store in ms."""

    rows: Sequence[Record]
    now_ms: int

    @property
    def newest(self) -> Record | None:
        """The newest one, if there is any."""
        return self.rows[0] if self.rows else None

    @property
    def done(self) -> Record | None:
        """The newest one whose action was executed, if there is any."""
        return next((row for row in self.rows if row.state == State.DONE), None)

    @property
    def age_s(self) -> float:
        """The seconds since the newest one that is done was submitted.

        Where none is done yet, those since the oldest one was submitted; inf where there is none.
        """
        since = self.done or (self.rows[-1] if self.rows else None)
        return max(self.now_ms - since.created_ms, 0) / 1_000 if since else inf

    def ended(self) -> list[Record]:
        """Return those that have ended, in whatever way."""
        return [row for row in self.rows if isinstance(CANARY.stage(row.state), Terminal)]


def canaries(records: Records) -> Canaries:
    """Read the canaries. Raises StoreError."""
    views = records.views
    found = views.records(views.ids(CANARY), readable_by={CANARY.name: CANARY}).values()
    newest_first = sorted(found, key=lambda one: one.created_ms, reverse=True)
    return Canaries(newest_first, records.now_ms())


def health(records: Records) -> Health:
    """Return what canaries show of a deployment. Raises StoreError."""
    found, period_s = canaries(records), records.settings.of(ThreadSettings).canary_s
    facts = {DONE: f"submitted {age(found.age_s * 1_000)} ago"} if found.done else {}
    if not period_s:
        return Health(facts=facts)
    late = late_canary(found, period_s)
    return Health(
        problems=[late] if late else [],
        facts=facts,
        gauges={"canary_seconds": (MEANING, found.age_s)},
        notice=_notice(found.newest) if found.newest else None,
    )


def _notice(newest: Record) -> Sentence:
    """Return the line that says how far the newest canary has come."""
    state = newest.state.replace("_", " ")
    canary = Link(newest.id, "canary")
    return Sentence(
        (
            "The newest ",
            canary,
            " was submitted ",
            Time(newest.created_ms),
            f" ago; it is {state}.",
        )
    )


def late_canary(found: Canaries, period_s: float) -> str:
    """Return a sentence about canaries that are late, with what to do, or ''.

    Where none was submitted yet, nothing is said here: their sweep is late, as others may be.
    """
    if found.newest is None or found.age_s <= period_s + PATIENCE_S:
        return ""
    none = f"no canary of the last {age(found.age_s * 1_000)} is done"
    if found.newest == found.done:
        return f"work may not get through: {none}, as their sweep submits none"
    return (
        f"work does not get through: {none};"
        f" `interlock history {found.newest.id}` shows how far the newest has come"
    )
