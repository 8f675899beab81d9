"""The guards and updates of a task that waits for its subtasks, or is blocked on them. Pure."""

from __future__ import annotations

from interlock import Ask
from interlock.system.tables import RecordData as Data
from interlock.systems.tasks.machines.task.data import TaskData
from interlock.systems.tasks.machines.task.names import State


def waits_for_subtasks(data: TaskData) -> bool:
    """Whether the task is blocked because its subtasks have not all ended well."""
    return bool(data.get("blocked_on", {}).get("kind") == "subtasks")


def all_succeeded(ask: Ask[TaskData]) -> bool:
    """Whether every subtask ended well."""
    return all(state == State.CLOSED for state, number in ask.payload["tally"].items() if number)


def succeeded_late(ask: Ask[TaskData]) -> bool:
    """Whether every subtask has ended well by now, after the task was blocked on them."""
    return waits_for_subtasks(ask.data) and all_succeeded(ask)


def done(ask: Ask[TaskData]) -> Data:
    """Keep how the subtasks ended; the whole is verified next, with their work merged."""
    data = {name: value for name, value in ask.data.items() if name != "blocked_on"}
    return {**data, "tally": ask.payload["tally"], "summary": "all subtasks came to their end"}


def blocked(ask: Ask[TaskData]) -> Data:
    """Ask a person about subtasks that were late or did not end well; `listed` names them."""
    return {**ask.data, "blocked_on": {"kind": "subtasks", "on": "its subtasks"}}


def listed(ask: Ask[TaskData]) -> Data:
    """Name the subtasks that have not ended well."""
    return {**ask.data, "blocked_on": _blocked_on(ask.payload)}


def has_news(ask: Ask[TaskData]) -> bool:
    """Whether other subtasks than before have not ended well."""
    return waits_for_subtasks(ask.data) and ask.data["blocked_on"] != _blocked_on(ask.payload)


def _blocked_on(checked: Data) -> Data:
    # A cancelled subtask is never closed, so a task that has one does not go on by itself.
    cancelled = checked["tally"].get(State.CANCELLED, 0)
    counted = {"cancelled": cancelled} if cancelled else {}
    return {"kind": "subtasks", "on": _unfinished(checked), **counted}


def _unfinished(checked: Data) -> str:
    bad = sum(number for state, number in checked["tally"].items() if state != State.CLOSED)
    named = checked["unfinished"]
    more = f" and {bad - len(named)} more" if bad > len(named) else ""
    total = sum(checked["tally"].values())
    return f"{bad} of its {total} subtasks: {', '.join(named)}{more}"
