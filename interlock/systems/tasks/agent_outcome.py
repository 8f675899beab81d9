"""Decides which outcome to report for an agent, from how its process ended or was stopped."""

from __future__ import annotations

from collections.abc import Callable

from interlock import KernelError, Outcome
from interlock.system.agents import AgentFailed, Exit
from interlock.system.records import Records
from interlock.system.tables import AbortReason, Record, TransitionReason
from interlock.systems.tasks.machines.agent.limits import REASON_LENGTH_MAX
from interlock.systems.tasks.machines.agent.payloads import AgentData
from interlock.systems.tasks.machines.agent.table import State as AgentState
from interlock.systems.tasks.machines.agent.table import Trigger as AgentTrigger
from interlock.systems.tasks.machines.breaker import Trip
from interlock.systems.tasks.machines.task.data import TaskData
from interlock.systems.tasks.machines.task.names import State, Trigger
from interlock.systems.tasks.parent_task import cancelled_parent
from interlock.systems.tasks.turn_reports import EndReport

DETAIL_LENGTH_MAX = 2_000  # characters of what an agent that failed said


def agent_outcome(
    ended: Exit,
    abort: AbortReason | None,
    end_report: EndReport | None,
    *,
    task: Outcome | None,
    trip: Trip | None,
    stopped_because: str,
    hide: Callable[[str], str],
    alive: bool,
) -> Outcome:
    """Return the outcome: `spawn_failed` if the agent ended before it began to work, else `ended`.

    It is `alive` once it has printed something, reported anything but a failure, or run for a
    second. `task` is the outcome of the task that it had at its end, and `stopped_because` says why
    it was ordered to stop. `hide` hides secrets in what it has printed and reported.
    """
    end = {
        "exit_code": ended.code,
        "abort": abort,
        "why": _why(abort, task),
        "left_behind": ended.left_behind,
        "detail": hide(ended.errors)[-DETAIL_LENGTH_MAX:],
    }
    if stopped_because:
        end["reason"] = stopped_because[:REASON_LENGTH_MAX]
    if trip is not None:
        end |= {"code": f"breaker_{trip.cause}", "reason": trip.reason}
    if alive:
        return Outcome(AgentTrigger.ENDED, end)
    failure = _spawn_failure(end_report)
    failure["reason"] = hide(failure["reason"])[:REASON_LENGTH_MAX]
    return Outcome(AgentTrigger.SPAWN_FAILED, {**end, **failure})


def _why(abort: AbortReason | None, task: Outcome | None) -> TransitionReason:
    """Return why the agent ended. One whose task failed has not completed, whatever its exit."""
    if task is not None and task.trigger == Trigger.FAILED:
        told = task.payload.get("why")
        if told and not (reason := TransitionReason(told)).ends_well:
            return reason
        return (abort or AbortReason.UNKNOWN).why
    return abort.why if abort else TransitionReason.COMPLETED


def _spawn_failure(end_report: EndReport | None) -> dict[str, str]:
    if not isinstance(end_report, AgentFailed):
        return {"code": "fast_exit", "reason": "it ended before it began to work"}
    overloaded = end_report.reason is TransitionReason.PROVIDER_529
    limited = overloaded or end_report.retry_after_s is not None
    code = "rate_limit" if limited else "spawn_error"
    return {"code": code, "reason": end_report.error}


def abort_by_us(reason: str | None) -> AbortReason | None:
    """Return why Interlock ended a process, or None if it did not.

    The reasons of its watchdog count as a timeout.
    """
    if reason is None:
        return None
    return AbortReason(reason) if reason in set(AbortReason) else AbortReason.TIMEOUT


# The reason for ending a process whose work is over, where nothing went wrong.
WORK_OVER = "over"


def why_stopped(records: Records, agent_id: str, task_id: str | None) -> tuple[str, str]:
    """Return the reason for an order to stop, and the words of the task's failure if it failed.

    An agent without a task is stopped by its own record only.
    """
    views, words = records.views, ""
    try:
        agent: Record[AgentData] = views.record(agent_id)
        if abort := (agent.data.get("end") or {}).get("abort"):
            return str(abort), ""
        if agent.state == AgentState.DEAD:
            return WORK_OVER, ""
        assert task_id is not None, "the stopped lease is the agent's or the task's"
        task: Record[TaskData] = views.record(task_id)
        if task.state == State.CANCELLED and cancelled_parent(records, task):
            return AbortReason.PARENT_ABORTED, ""
        failure = task.data.get("failure") or {}
        abort, words = failure.get("abort"), str(failure.get("reason", ""))
    except KernelError:
        abort = None
    return str(abort or AbortReason.SHUTDOWN_SIGNAL), words
