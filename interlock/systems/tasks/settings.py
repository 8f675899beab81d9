"""The settings of coding tasks."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, NonNegativeInt

from interlock.system.settings import SystemSettings
from interlock.system.tables import Word

Seconds = Annotated[float, Field(gt=0, le=100 * 365 * 86_400)]


class TaskSettings(SystemSettings):
    """The settings of coding tasks: field `x` is read from the variable INTERLOCK_X."""

    judge_model: str | None = None
    judge_s: Seconds = 60.0
    verify_s: Seconds = 120.0
    stage_failures: bool = False  # whether `interlock task fail-stage` may fail unclaimed tasks
    # Seconds in which the subtasks of a task should end; None computes them from their sizes.
    subtasks_s: Annotated[int, Field(ge=1, le=31_536_000)] | None = None
    # For a level of trust: after how many changed files of a task a person is asked.
    files_by_trust: dict[str, NonNegativeInt] = Field(
        default_factory=dict, examples=["level=files"]
    )
    stall_s: Seconds = 300.0
    spawn_s: Seconds = 60.0
    roles: tuple[Word, ...] = Field(default_factory=tuple)  # empty: tasks may name any role
