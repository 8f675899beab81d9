"""What an agent may do by the trust that it has earned. Pure.

The four levels, the successes that each takes (1, 3, 10), the loss of one level by a violation, and
that a failure costs none, are those of Bernstein: src/bernstein/core/security/graduated_access.py
of github.com/sipyourdrink-ltd/bernstein (Apache-2.0). There a level gates writing, the network,
directories and the files of a task. Here it gates triggers, a table of ours, and, where a
deployment says so, after how many changed files a person is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import auto

from interlock.system.tables import Ranked
from interlock.systems.tasks.machines.task.names import Trigger


class Trust(Ranked):
    """How far an agent's identity is trusted, from least to most."""

    UNTRUSTED = auto()
    PROBATIONARY = auto()
    TRUSTED = auto()
    ELEVATED = auto()


# The triggers of a task that need trust, and the lowest level of each. This table is ours.
# fmt: off
MINIMUM_TRUST: Mapping[str, Trust] = {
    Trigger.CLAIMED:         Trust.UNTRUSTED,
    Trigger.STARTED:         Trust.UNTRUSTED,
    Trigger.COMPLETED:       Trust.UNTRUSTED,  # every completion is verified
    Trigger.FAILED:          Trust.UNTRUSTED,
    Trigger.BLOCKED:         Trust.PROBATIONARY,
    Trigger.SPLIT:           Trust.TRUSTED,
    Trigger.RELEASED:        Trust.TRUSTED,
    Trigger.CHILD_CANCELLED: Trust.ELEVATED,
}
# fmt: on

# How many successes lift an agent out of a level; no level is above elevated.
SUCCESSES_TO_LEAVE: Mapping[Trust, int] = {
    Trust.UNTRUSTED: 1,
    Trust.PROBATIONARY: 3,
    Trust.TRUSTED: 10,
}


def earned(level: Trust, successes: int) -> bool:
    """Whether so many successes since the last violation lift an agent out of its level."""
    leaves_at = SUCCESSES_TO_LEAVE.get(level)
    return leaves_at is not None and successes >= leaves_at


def allowed(level: Trust, trigger: str) -> bool:
    """Whether an agent of this level may fire the trigger; none may fire one that is not listed."""
    return trigger in MINIMUM_TRUST and level >= MINIMUM_TRUST[trigger]


def refusal(level: Trust, trigger: str) -> str:
    """Return why the trigger is refused and which level it needs; empty where it is allowed."""
    if allowed(level, trigger):
        return ""
    if trigger not in MINIMUM_TRUST:
        return f"no level of trust lets an agent fire {trigger}"
    return f"{trigger} needs the trust level {MINIMUM_TRUST[trigger]}; this agent's is {level}"


def too_many_files(level: Trust, files: int, limits: Mapping[str, int]) -> str:
    """Say that an agent of this level changed more files than it may without a person, or ''.

    A level without a limit may change any number.
    """
    limit = limits.get(level)
    if limit is None or files <= limit:
        return ""
    counted = f"{limit} file{'' if limit == 1 else 's'}"
    return f"its agent is {level}, and may change {counted} without a person"
