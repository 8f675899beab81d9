"""Starts the supervisor of a long-lived agent's session, which takes over this effect's lease."""

from __future__ import annotations

from interlock import EffectWork, Outcome
from interlock.system.agents import hand_over, kill_leftovers
from interlock.systems.loops.machines.loop.data import LoopData
from interlock.systems.loops.machines.loop.names import Trigger
from interlock.systems.loops.paths import AgentPaths


def session(work: EffectWork[LoopData]) -> Outcome | None:
    """Start the supervisor. It holds the lease from then on and reports how the session ends."""
    record, data = work.record, work.record.data
    paths = AgentPaths(record.id, work.records.settings)
    # If a supervisor died together with its watchdog, their session still runs in this worktree.
    for attempt in (data["attempt"] - 1, data["attempt"]):
        kill_leftovers(paths.session(attempt), owner=record.id)
    try:
        hand_over(work, "interlock.systems.loops.supervisor", paths.session(data["attempt"]))
    except OSError as refusal:
        return Outcome(Trigger.SESSION_ERROR, {"code": "spawn_error", "detail": str(refusal)})
    return None
