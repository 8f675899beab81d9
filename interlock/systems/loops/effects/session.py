"""Starts the supervisor of a long-lived agent's session, which takes over this effect's lease."""

from __future__ import annotations

from functools import partial

from interlock import EffectWork, Outcome
from interlock.system.agents import SupervisorError, kill_leftovers, launch, process_label
from interlock.systems.loops.launch_spec import SessionLaunchSpec
from interlock.systems.loops.paths import AgentPaths


def session(work: EffectWork) -> Outcome | None:
    """Start the supervisor. It holds the lease from then on and reports how the session ends."""
    record, lease, dispatch = work.record, work.lease, work.dispatch
    data, paths = record.data, AgentPaths(record.id, dispatch.settings)
    spec = SessionLaunchSpec(
        key=lease.key,
        token=lease.token,
        work_folder=str(paths.session(int(data["attempt"]))),
        worktree=str(data["worktree"]),
        command=str(data["command"]),
        prompt=str(data["prompt"]),
        digest=str(data["digest"]),
        session_seq=int(data["session_seq"]),
    )
    # If a supervisor died together with its watchdog, their session still runs in this worktree.
    for attempt in (int(data["attempt"]) - 1, int(data["attempt"])):
        kill_leftovers(process_label(paths.session(attempt)), owner=record.id)
    lease_ms = work.held.lease_ms
    renew = partial(dispatch.leases.renew, {lease.key: (lease.token, lease_ms, 0)})
    try:
        launch("interlock.systems.loops.supervisor", spec.write(), renew, every_s=lease_ms / 3_000)
    except (SupervisorError, OSError) as refusal:
        return Outcome("session_error", {"code": "spawn_error", "detail": str(refusal)})
    work.handed_over.set()
    return None
