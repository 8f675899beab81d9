"""The guards and updates of a task that waits for its subtasks, or is blocked on them. Pure."""

from __future__ import annotations

from interlock.kernel.machines.tasks.task.names import State
from interlock.kernel.table import Ask, Data


def waits_for_subtasks(data: Data) -> bool:
    """Whether the task is blocked because its subtasks have not all ended well."""
    return bool(data.get("blocked_on", {}).get("kind") == "subtasks")


def all_succeeded(ask: Ask) -> bool:
    """Whether every subtask ended well."""
    return all(state == State.CLOSED for state, number in ask.payload["tally"].items() if number)


def succeeded_late(ask: Ask) -> bool:
    """Whether every subtask has ended well by now, after the task was blocked on them."""
    return waits_for_subtasks(ask.data) and all_succeeded(ask)


def done(ask: Ask) -> Data:
    """Keep how the subtasks ended; the whole is verified next, with their work merged."""
    data = {name: value for name, value in ask.data.items() if name != "blocked_on"}
    return {**data, "tally": ask.payload["tally"], "summary": "all subtasks came to their end"}


def mixed(ask: Ask) -> Data:
    """Ask a person what to do about subtasks that failed or were cancelled."""
    tally = ask.payload["tally"]
    bad = ", ".join(f"{n} {state}" for state, n in sorted(tally.items()) if state != State.CLOSED)
    on = f"its subtasks, not every one of which ended well: {bad}"
    return {**ask.data, "tally": tally, "blocked_on": {"kind": "subtasks", "on": on}}


def overdue(ask: Ask) -> Data:
    """Ask a person about subtasks that did not end in time."""
    on = "its subtasks, which did not all end in time"
    return {**ask.data, "blocked_on": {"kind": "subtasks", "on": on}}


def listed(ask: Ask) -> Data:
    """Name the subtasks that have not ended well."""
    return {**ask.data, "blocked_on": {"kind": "subtasks", "on": _unfinished(ask.payload)}}


def has_news(ask: Ask) -> bool:
    """Whether other subtasks than before have not ended well."""
    return waits_for_subtasks(ask.data) and (
        ask.data["blocked_on"]["on"] != _unfinished(ask.payload)
    )


def _unfinished(checked: Data) -> str:
    bad = sum(number for state, number in checked["tally"].items() if state != State.CLOSED)
    named = checked["unfinished"]
    more = f" and {bad - len(named)} more" if bad > len(named) else ""
    total = sum(checked["tally"].values())
    return f"{bad} of its {total} subtasks: {', '.join(named)}{more}"
