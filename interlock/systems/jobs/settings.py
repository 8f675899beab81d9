"""The settings of jobs."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, PositiveInt

from interlock.system.settings import SystemSettings
from interlock.system.tables import Word


class JobSettings(SystemSettings):
    """The settings of jobs: field `x` is read from the variable INTERLOCK_X."""

    disk_free_min_mb: Annotated[int, Field(ge=0)] = 200  # with less, no job's worker starts
    # Jobs that run at once, by queue.
    queue_slots: dict[Word, PositiveInt] = Field(default_factory=dict, examples=["queue=slots"])
