"""Which triggers of a task an agent may fire, by the trust it has earned; it never fires one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import auto

from kernel.axis import Ranked
from kernel.errors import UnknownTriggerError


class Trust(Ranked):
    """How far an agent's identity is trusted, from least to most."""

    UNTRUSTED = auto()
    PROBATIONARY = auto()
    TRUSTED = auto()
    ELEVATED = auto()


# The least level that may fire each trigger. The table is ours: the seed publishes none.
# fmt: off
NEEDED: Mapping[str, Trust] = {
    "claim":        Trust.UNTRUSTED,
    "start":        Trust.UNTRUSTED,
    "complete":     Trust.UNTRUSTED,  # a completion is verified, whoever claims it
    "fail":         Trust.UNTRUSTED,
    "block":        Trust.PROBATIONARY,
    "split":        Trust.TRUSTED,
    "release":      Trust.TRUSTED,
    "cancel_child": Trust.ELEVATED,
}
# fmt: on

# Successes that lift an agent out of a level; nothing lies above elevated.
SUCCESSES_TO_LEAVE: Mapping[Trust, int] = {
    Trust.UNTRUSTED: 1,
    Trust.PROBATIONARY: 3,
    Trust.TRUSTED: 10,
}


@dataclass(frozen=True, slots=True)
class TrackRecord:
    """What an agent's identity has done so far. Failures and violations are totals.

    `successes` counts since the last violation: old ones would undo a demotion at the next success,
    and a bar for ever after one violation would waste a long good record.
    """

    level: Trust = Trust.UNTRUSTED
    successes: int = 0
    failures: int = 0
    violations: int = 0

    def succeeded(self) -> TrackRecord:
        """Return the record after a success, at most one level higher."""
        successes = self.successes + 1
        leaves_at = SUCCESSES_TO_LEAVE.get(self.level)
        earned = leaves_at is not None and successes >= leaves_at
        level = _moved(self.level, 1) if earned else self.level
        return replace(self, successes=successes, level=level)

    def failed(self) -> TrackRecord:
        """Return the record after a failure. To fail costs no trust."""
        return replace(self, failures=self.failures + 1)

    def violated(self) -> TrackRecord:
        """Return the record after a violation, one level lower, with its successes to earn anew."""
        lower = _moved(self.level, -1)
        return replace(self, level=lower, successes=0, violations=self.violations + 1)


def needed(trigger: str) -> Trust:
    """Return the least level that may fire the trigger.

    Raises UnknownTriggerError for a trigger that is no agent's to fire.
    """
    if trigger not in NEEDED:
        raise UnknownTriggerError("graduated access", trigger, sorted(NEEDED))
    return NEEDED[trigger]


def allowed(level: Trust, trigger: str) -> bool:
    """Tell whether an agent of this level may fire the trigger; what the table lacks, none may."""
    return trigger in NEEDED and level >= NEEDED[trigger]


def refusal(level: Trust, trigger: str) -> str:
    """Return why the trigger is refused and which level would do; empty where it is allowed."""
    if allowed(level, trigger):
        return ""
    if trigger not in NEEDED:
        return f"no level of trust lets an agent fire {trigger}"
    return f"{trigger} needs the trust level {NEEDED[trigger]}; this agent's is {level}"


def _moved(level: Trust, steps: int) -> Trust:
    levels = list(Trust)
    return levels[min(max(level.rank + steps, 0), len(levels) - 1)]
