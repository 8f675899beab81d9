"""The settings of threads."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from interlock.system.settings import SystemSettings
from interlock.systems.threads.tier import Tier


class ThreadSettings(SystemSettings):
    """The settings of threads: field `x` is read from the variable INTERLOCK_X."""

    # How often a canary is submitted, in seconds; with 0 none is.
    canary_s: Annotated[int, Field(ge=0, le=86_400)] = 60
    # The model that answers questions of a tier.
    tier_models: dict[Tier, str] = Field(default_factory=dict, examples=["tier=model"])
