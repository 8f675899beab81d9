"""Submits a canary from time to time, and deletes those that have ended.

Only the newest that is done is kept: it says when work got through last, and its log how fast.

What it can get wrong: two workers that sweep at the same moment submit one canary, since its id
follows from the time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial

from interlock import PRODUCER, Settings
from interlock.system.records import Records, Sweep, act_on_each
from interlock.systems.threads.canary import (
    CANARIES_MAX,
    PATIENCE_S,
    PAYLOAD,
    Canaries,
    canaries,
)
from interlock.systems.threads.machines.canary.table import CANARY
from interlock.systems.threads.settings import ThreadSettings

# No caller repeats the submission of a canary later, so its id needs not stay taken for a year.
TOMBSTONE_MS = 3_600_000


def is_needed(settings: Settings) -> bool:
    """Whether canaries are switched on."""
    return settings.of(ThreadSettings).canary_s > 0


def due(_: Records) -> list[int]:
    """Return one partition: canaries are in any, and are read together."""
    return [0]


def run(records: Records, _: int) -> Counter[str]:
    """Delete the canaries that have ended, all but the newest that is done; submit one if due."""
    found, period_s = canaries(records), records.settings.of(ThreadSettings).canary_s
    acts: dict[str, Callable[[], str]] = {
        row.id: partial(records.prune, row, tombstone_ms=TOMBSTONE_MS)
        for row in found.ended()
        if row != found.done
    }
    if _is_due(found, period_s):
        new_id = f"canary-{found.now_ms // int(min(period_s, PATIENCE_S) * 1_000)}"
        acts[new_id] = partial(_submit, records, new_id)
    return act_on_each(acts)


def _is_due(found: Canaries, period_s: float) -> bool:
    if len(found.rows) >= CANARIES_MAX:
        return False
    if found.newest is None:
        return True
    waits_s = period_s if found.newest in found.ended() else max(period_s, PATIENCE_S)
    return found.now_ms - found.newest.created_ms >= waits_s * 1_000


def _submit(records: Records, new_id: str) -> str:
    why = "to see that work gets through"
    # A full deployment refuses what producers submit; its workers are tried all the same.
    records.named(PRODUCER).create(CANARY.name, new_id, PAYLOAD, reason=why, begins=True)
    return "submitted"


SWEEP = Sweep("canary", due, run, periods=5, is_needed=is_needed)
