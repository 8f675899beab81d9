"""Reads of the task that a subtask belongs to."""

from __future__ import annotations

from interlock.kernel.record import Record
from interlock.workers.engine.dispatch import Dispatch


def cancelled_parent(dispatch: Dispatch, task: Record) -> str:
    """Return the id of the task that this one is a subtask of, if it was cancelled, or ''."""
    parent = task.parent
    if parent is None or "/" not in parent:
        return ""
    return parent if dispatch.views.record(parent).state == "cancelled" else ""
