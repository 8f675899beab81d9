"""Which triggers of a task an agent may fire, by the trust it has earned; it never fires one."""

from __future__ import annotations

from collections.abc import Mapping
from enum import auto

from interlock.kernel.policy_axis import Ranked


class Trust(Ranked):
    """How far an agent's identity is trusted, from least to most."""

    UNTRUSTED = auto()
    PROBATIONARY = auto()
    TRUSTED = auto()
    ELEVATED = auto()


# The least level that may fire each trigger of a task. The table is ours: the seed publishes none.
# fmt: off
NEEDED: Mapping[str, Trust] = {
    "claimed":         Trust.UNTRUSTED,
    "started":         Trust.UNTRUSTED,
    "completed":       Trust.UNTRUSTED,  # a completion is verified, whoever claims it
    "failed":          Trust.UNTRUSTED,
    "blocked":         Trust.PROBATIONARY,
    "split":           Trust.TRUSTED,
    "released":        Trust.TRUSTED,
    "child_cancelled": Trust.ELEVATED,
}
# fmt: on

# Successes that lift an agent out of a level; nothing lies above elevated.
SUCCESSES_TO_LEAVE: Mapping[Trust, int] = {
    Trust.UNTRUSTED: 1,
    Trust.PROBATIONARY: 3,
    Trust.TRUSTED: 10,
}


def earned(level: Trust, successes: int) -> bool:
    """Tell whether so many successes since the last violation lift an agent out of its level."""
    leaves_at = SUCCESSES_TO_LEAVE.get(level)
    return leaves_at is not None and successes >= leaves_at


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
