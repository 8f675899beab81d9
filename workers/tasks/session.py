"""What an idle session does next: the first task in line that its very agent is meant for."""

from __future__ import annotations

from functools import partial

from interlock.kernel.record import Record, root_of
from interlock.kernel.store.leases import Lease
from interlock.kernel.table import Data
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.gateways.git.errors import GitError
from interlock.workers.tasks.assignment import renewing
from interlock.workers.tasks.claims import claim, given_up, in_line, prepared, runs_here
from interlock.workers.tasks.launch_spec import ClaimPaths

SAME = (
    "agent",
    "agent_name",
    "role",
    "tenant",
    "stream",
    "session",
    "parent_agent",
    "abort_policy",
)


def next_task(dispatch: Dispatch, agent: Record, first: Data) -> tuple[Lease, ClaimPaths] | None:
    """Claim a task like its first one and make its worktree; None where there is none."""
    root = root_of(agent.id)
    for record in in_line(dispatch, root, str(first["role"])):
        alike = all(record.data.get(name) == first.get(name) for name in SAME)
        if not (alike and runs_here(record.data)):
            continue
        lease = claim(dispatch, record, agent=agent.id)
        if lease is not None:
            return _prepared(dispatch, agent, lease)
    return None


def _prepared(dispatch: Dispatch, agent: Record, lease: Lease) -> tuple[Lease, ClaimPaths] | None:
    lease_ms = dispatch.effect("task", "agent").lease_ms
    renew = partial(dispatch.leases.renew, {lease.key: (lease.token, lease_ms, 0)})
    try:
        with renewing(renew, every_s=lease_ms / 3_000):
            return lease, prepared(dispatch, lease, agent=agent.id)
    except (GitError, OSError) as failure:
        given_up(dispatch, lease, failure)
        return None
