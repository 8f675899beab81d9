"""Reads the task that a subtask belongs to, and checks whose subtask a task is."""

from __future__ import annotations

from interlock.system.errors import InvalidPayloadError
from interlock.system.records import Records
from interlock.system.tables import Record
from interlock.systems.tasks.machines.task.data import TaskData
from interlock.systems.tasks.machines.task.names import State


def cancelled_parent(records: Records, task: Record[TaskData]) -> str:
    """Return the id of the task that this one is a subtask of, if it was cancelled, or ''."""
    parent = task.parent
    if parent is None or "/" not in parent:
        return ""
    return parent if records.views.record(parent).state == State.CANCELLED else ""


def refuse_other_tasks(task_id: str, child: object) -> None:
    """Raise an error if the task `child` is not a subtask of the task `task_id`.

    The owner of a task may cancel its subtasks, and no other task. A value that is no text is not
    checked here, because the trigger refuses it. Raises InvalidPayloadError.
    """
    if isinstance(child, str) and child.rpartition("/")[0] != task_id:
        problem = f"child: {child} is not a subtask of {task_id}"
        raise InvalidPayloadError("child_cancelled", [problem])
