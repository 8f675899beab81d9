"""Says why an external agent can claim none of the tasks of a backlog now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from interlock.kernel.record import Record
from interlock.kernel.table import Data
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.tasks.waits import Waits


def unclaimed(
    dispatch: Dispatch, tasks: Sequence[Record], claimer: Data
) -> dict[str, dict[str, int]]:
    """Return how many tasks are in each of the `states`, and the `reasons` of those that are open.

    Each open task counts for one reason why the claimer, a role, an owner and a tenant, cannot
    claim it.
    """
    waits, now_ms = Waits(dispatch, tasks), dispatch.views.now_ms()
    open_tasks = (task for task in tasks if task.state == "open")
    reasons = Counter(_reason(waits, task, claimer, now_ms) for task in open_tasks)
    return {"states": dict(Counter(task.state for task in tasks)), "reasons": dict(reasons)}


def _reason(waits: Waits, task: Record, claimer: Data, now_ms: int) -> str:
    """Return why an open task is not claimed: words that follow the number of such tasks."""
    data = task.data
    if data.get("agent"):
        return "for agents that Interlock starts"
    for name in ("role", "tenant"):
        if data[name] != claimer[name]:
            return f"for the {name} {data[name]}"
    if data.get("kept_for") not in (None, claimer["owner"]):
        return f"kept for the agent {data['kept_for']}"
    if waits.unmet(task):
        return "waiting for other tasks"
    if now_ms < data["not_before"]:
        return "not to begin yet"
    # Such as for files that another task owns. The claim of one task by its id says which it is.
    return "refused to this agent now (`interlock task claim TASK` says why)"
