"""Reads of the task that a subtask belongs to, and a check that a subtask is its own."""

from __future__ import annotations

from interlock.kernel.errors import InvalidPayloadError
from interlock.kernel.record import Record, parent_of
from interlock.workers.engine.dispatch import Dispatch


def cancelled_parent(dispatch: Dispatch, task: Record) -> str:
    """Return the id of the task that this one is a subtask of, if it was cancelled, or ''."""
    parent = task.parent
    if parent is None or "/" not in parent:
        return ""
    return parent if dispatch.views.record(parent).state == "cancelled" else ""


def refuse_other_tasks(task_id: str, child: object) -> None:
    """Refuse that the owner of a task cancels a task that is not a subtask of it.

    A value that is no text is not checked here, because the trigger refuses it.
    Raises InvalidPayloadError.
    """
    if isinstance(child, str) and parent_of(child) != task_id:
        problem = f"child: {child} is not a subtask of {task_id}"
        raise InvalidPayloadError("child_cancelled", [problem])
