"""Approves jobs that are configured to need no person."""

from __future__ import annotations

from interlock.kernel.machines.jobs.job.names import State
from interlock.workers.engine.work import EffectWork, Outcome


def approval(work: EffectWork) -> Outcome | None:
    """Approve a job that still waits for approval."""
    if work.record.state != State.APPROVAL_REQUIRED or not work.record.data["auto_approve"]:
        return None
    return Outcome("approve", {"by": "approval", "reason": "it needs no sign-off"})
