"""How many agents of a task may be lost. Pure functions of data and payload."""

from __future__ import annotations

from interlock import Ask
from interlock.system.tables import RecordData as Data
from interlock.systems.tasks.machines.task import limits
from interlock.systems.tasks.machines.task.data import TaskData


def orphaned(ask: Ask[TaskData]) -> Data:
    """Count the crash, and keep what is known of it."""
    crash = {name: value for name, value in ask.payload.items() if value}
    return {**ask.data, "crashes": ask.data["crashes"] + 1, "lost": crash}


def may_be_followed(ask: Ask[TaskData]) -> bool:
    """Whether another agent may follow a lost one."""
    return int(ask.data["crashes"]) <= lost_max(ask.data)


def lost_max(data: TaskData) -> int:
    """Return how many lost agents may be followed by another, since the last retry.

    Without a number of its own, a task that is tried once is not repeated for a lost agent either.
    """
    own = data.get("max_lost")
    return min(int(data["max_retries"]), limits.LOST_FOLLOWED) if own is None else int(own)


def runs_once(data: TaskData) -> bool:
    """Whether no agent may follow a lost one, so that none may have begun unnoticed."""
    return lost_max(data) == 0
