"""The settings of jobs."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from interlock.system.settings import SystemSettings, numbers_of
from interlock.system.tables import Word


class JobSettings(SystemSettings):
    """The settings of jobs: field `x` is read from the variable INTERLOCK_X."""

    disk_free_min_mb: Annotated[int, Field(ge=0)] = 200  # with less, no job's worker starts
    # Jobs that run at once, by queue.
    queue_slots: Annotated[dict[Word, int], numbers_of("queue=slots", 1)] = Field(
        default_factory=dict
    )
