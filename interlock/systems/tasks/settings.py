"""The settings of coding tasks."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from interlock.system.settings import Seconds, SystemSettings, Words, numbers_of


class TaskSettings(SystemSettings):
    """The settings of coding tasks: field `x` is read from the variable INTERLOCK_X."""

    judge_model: str | None = None
    judge_s: Seconds = 60.0
    verify_s: Seconds = 120.0
    stage_failures: bool = False  # whether `interlock task fail-stage` may fail unclaimed tasks
    # Seconds in which the subtasks of a task should end; None computes them from their sizes.
    subtasks_s: Annotated[int, Field(ge=1, le=31_536_000)] | None = None
    # For a level of trust: after how many changed files of a task a person is asked.
    files_by_trust: Annotated[dict[str, int], numbers_of("level=files", 0)] = Field(
        default_factory=dict
    )
    stall_s: Seconds = 300.0
    spawn_s: Seconds = 60.0
    roles: Words = Field(default_factory=tuple)  # empty: tasks may name any role
