"""Says why the process of an agent was ordered to stop, from the records of agent and task."""

from __future__ import annotations

from interlock.kernel.errors import KernelError
from interlock.kernel.reason import AbortReason
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.tasks.parent_task import cancelled_parent

# The reason for ending a process whose work is over, where nothing went wrong.
WORK_OVER = "over"


def why_stopped(dispatch: Dispatch, agent_id: str, task_id: str | None) -> tuple[str, str]:
    """Return the reason for an order to stop, and the words of the task's failure if it failed.

    An agent without a task is stopped by its own record only.
    """
    views, words = dispatch.views, ""
    try:
        agent = views.record(agent_id)
        if abort := (agent.data.get("end") or {}).get("abort"):
            return str(abort), ""
        if agent.state == "dead":
            return WORK_OVER, ""
        assert task_id is not None, "the stopped lease is the agent's or the task's"
        task = views.record(task_id)
        if task.state == "cancelled" and cancelled_parent(dispatch, task):
            return AbortReason.PARENT_ABORTED, ""
        failure = task.data.get("failure") or {}
        abort, words = failure.get("abort"), str(failure.get("reason", ""))
    except KernelError:
        abort = None
    return str(abort or AbortReason.SHUTDOWN_SIGNAL), words
