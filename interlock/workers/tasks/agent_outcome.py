"""Decides which outcome to report for an agent, from how its process ended. Pure."""

from __future__ import annotations

from interlock.kernel.machines.tasks.breaker import Trip
from interlock.kernel.reason import ENDS_WELL, AbortReason, TransitionReason, why_of
from interlock.workers.engine.work import Outcome
from interlock.workers.processes.agent.process import Exit
from interlock.workers.redaction import Redaction
from interlock.workers.supervision.reports import AgentFailed
from interlock.workers.tasks.turn_reports import EndReport

REASON_LENGTH_MAX = 2_000
DETAIL_LENGTH_MAX = 2_000


def agent_outcome(
    ended: Exit,
    abort: AbortReason | None,
    end_report: EndReport | None,
    *,
    task: Outcome | None,
    trip: Trip | None,
    stopped_because: str,
    redaction: Redaction,
    alive: bool,
) -> Outcome:
    """Return the outcome: `spawn_failed` if the agent ended before it began to work, else `ended`.

    It is `alive` once it has printed something, reported anything but a failure, or run for a
    second. `task` is the outcome of the task that it had at its end, and `stopped_because` says why
    it was ordered to stop. The `redaction` hides secrets in what it has printed and reported.
    """
    end = {
        "exit_code": ended.code,
        "abort": abort,
        "why": _why(abort, task),
        "left_behind": ended.left_behind,
        "detail": redaction.text(ended.errors)[-DETAIL_LENGTH_MAX:],
    }
    if stopped_because:
        end["reason"] = stopped_because[:REASON_LENGTH_MAX]
    if trip is not None:
        end |= {"code": f"breaker_{trip.cause}", "reason": trip.reason}
    if alive:
        return Outcome("ended", end)
    failure = _spawn_failure(end_report)
    failure["reason"] = redaction.text(failure["reason"])[:REASON_LENGTH_MAX]
    return Outcome("spawn_failed", {**end, **failure})


def _why(abort: AbortReason | None, task: Outcome | None) -> TransitionReason:
    """Return why the agent ended. One whose task failed has not completed, whatever its exit."""
    if task is not None and task.trigger == "failed":
        told = task.payload.get("why")
        if told and told not in ENDS_WELL:
            return TransitionReason(told)
        return why_of(abort or AbortReason.UNKNOWN)
    return why_of(abort) if abort else TransitionReason.COMPLETED


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
