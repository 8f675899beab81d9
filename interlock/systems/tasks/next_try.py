"""When a task that has failed is tried again by itself. Pure."""

from __future__ import annotations

from interlock.system.tables import Record
from interlock.systems.tasks.machines.task.data import TaskData

BACKOFF = "backoff"


def next_try_s(record: Record[TaskData], now_ms: int) -> float | None:
    """Return in how many seconds a task is tried again; None if that is not decided by time.

    That is so in every state but `failed`, and for a failed task that is given up or paused.
    """
    due = (timer.due_at for timer in record.timers if timer.name == BACKOFF)
    due_ms = next(due, None)
    return None if due_ms is None or record.paused else max(due_ms - now_ms, 0) / 1_000
