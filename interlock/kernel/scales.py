"""The ordered scales that policies, capabilities and models share."""

from __future__ import annotations

from enum import auto

from interlock.kernel.policy_axis import Ranked


class Level(Ranked):
    """How severe something is. `Level(value)` reads an unknown or missing value as HIGH."""

    LOW = auto()
    MEDIUM = auto()
    HIGH = auto()

    @classmethod
    def _missing_(cls, value: object) -> Level:
        del value
        return cls.HIGH


class Tier(Ranked):
    """The kinds of models, agents and people that infer, from the cheapest to the dearest."""

    LOCAL_TOOL_CALLING = auto()
    LOCAL_FAST = auto()
    FRONTIER_FAST = auto()
    FRONTIER_BALANCED = auto()
    FRONTIER_BEST = auto()
    AGENT_HEADLESS = auto()
    USER = auto()
