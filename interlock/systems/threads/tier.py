"""The tiers of models: a policy limits which are used, settings name the model of each."""

from __future__ import annotations

from enum import auto

from interlock.system.tables import Ranked


class Tier(Ranked):
    """The kinds of models, agents and people that infer, from the cheapest to the dearest."""

    LOCAL_TOOL_CALLING = auto()
    LOCAL_FAST = auto()
    FRONTIER_FAST = auto()
    FRONTIER_BALANCED = auto()
    FRONTIER_BEST = auto()
    AGENT_HEADLESS = auto()
    USER = auto()
