"""How an agent's end is told to its record, from how its process ended; pure."""

from __future__ import annotations

from interlock.kernel.machines.tasks.breaker import Trip
from interlock.kernel.reason import AbortReason, TransitionReason, why_of
from interlock.workers.engine.work import Outcome
from interlock.workers.processes.agent.process import Exit
from interlock.workers.supervision.reports import AgentBlocked, AgentFailed, SplitRequested

REASON_LENGTH_MAX = 2_000
DETAIL_LENGTH_MAX = 2_000
Told = AgentFailed | AgentBlocked | SplitRequested | None


def agent_end(
    ended: Exit, abort: AbortReason | None, told: Told, *, trip: Trip | None, alive: bool
) -> Outcome:
    """Return what to tell: one that never gave a sign of life was not spawned well."""
    end = {
        "exit_code": ended.code,
        "abort": abort,
        "why": why_of(abort) if abort else TransitionReason.COMPLETED,
        "left_behind": ended.left_behind,
        "detail": ended.errors[-DETAIL_LENGTH_MAX:],
    }
    if trip is not None:
        end |= {"code": f"breaker_{trip.cause}", "reason": trip.reason}
    if alive:
        return Outcome("ended", end)
    return Outcome("spawn_failed", {**end, **_fault(told)})


def _fault(told: Told) -> dict[str, str]:
    if not isinstance(told, AgentFailed):
        return {"code": "fast_exit", "reason": "it ended before it gave a sign of life"}
    overloaded = told.reason is TransitionReason.PROVIDER_529
    limited = overloaded or told.retry_after_s is not None
    code = "rate_limit" if limited else "spawn_error"
    return {"code": code, "reason": told.error[:REASON_LENGTH_MAX]}


def ours(reason: str | None) -> AbortReason | None:
    """Return why we ended it; what its watchdog did alone is a time limit as well."""
    if reason is None:
        return None
    return AbortReason(reason) if reason in set(AbortReason) else AbortReason.TIMEOUT
