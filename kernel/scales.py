"""The ordered scales that policies, capabilities and models share; they decide nothing."""

from __future__ import annotations

from enum import auto

from interlock.kernel.policy_axis import Ranked


class Level(Ranked):
    """How bad it can get. `Level(value)` reads an unknown or missing value as HIGH."""

    LOW = auto()
    MEDIUM = auto()
    HIGH = auto()

    @classmethod
    def _missing_(cls, value: object) -> Level:
        del value
        return cls.HIGH


class Tier(Ranked):
    """Which sort of model, agent or person infers, from the cheapest to the dearest."""

    LOCAL_TOOL_CALLING = auto()
    LOCAL_FAST = auto()
    FRONTIER_FAST = auto()
    FRONTIER_BALANCED = auto()
    FRONTIER_BEST = auto()
    AGENT_HEADLESS = auto()
    USER = auto()
