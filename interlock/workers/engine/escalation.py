"""Says when a card is escalated because nobody has answered it, and to whom. Pure."""

from __future__ import annotations

from interlock.kernel.machines import MACHINES
from interlock.kernel.table import Waiting
from interlock.workers.config import Settings, SettingsError
from interlock.workers.engine.card import OBSTACLE, QUARANTINE, CardEscalation

OTHERS = "*"  # the row for every kind of card that has none of its own


def row_for(settings: Settings, kind: str) -> str | None:
    """Return the name of the row of INTERLOCK_ESCALATIONS for a kind of card, if there is one."""
    return next((name for name in (kind, OTHERS) if name in settings.escalations), None)


def limit_ms(settings: Settings, row: str) -> int:
    """Return how long a card of this row waits before it is escalated, in ms."""
    return int(settings.escalations[row][0] * 1_000)


def escalation_of(settings: Settings, kind: str, since_ms: int | None) -> CardEscalation | None:
    """Return when a card is escalated and to whom; None if nobody escalates its kind."""
    row = row_for(settings, kind)
    if row is None or since_ms is None:
        return None
    return CardEscalation(since_ms + limit_ms(settings, row), settings.escalations[row][1])


def check_escalations(settings: Settings) -> None:
    """Raise SettingsError if INTERLOCK_ESCALATIONS names a kind that no card has."""
    stages = (stage for machine in MACHINES.values() for stage in machine.stages)
    known = {str(one.card) for one in stages if isinstance(one, Waiting) and one.affordances}
    known |= {QUARANTINE, OBSTACLE, OTHERS}
    if unknown := sorted(settings.escalations.keys() - known):
        listed = ", ".join(sorted(known))
        raise SettingsError(
            f"INTERLOCK_ESCALATIONS: no card is of the kind {unknown[0]!r}; the kinds: {listed}"
        )
