"""Approves jobs that are configured to need no person, where their commits did not do so."""

from __future__ import annotations

from interlock.kernel.machines.jobs.job import following
from interlock.kernel.machines.jobs.job.names import State
from interlock.workers.engine.work import EffectWork, Outcome


def approval(work: EffectWork) -> Outcome | None:
    """Approve a job that still waits for approval: one that was restored, for example."""
    answer = following.sign_off(work.record.data)
    if work.record.state != State.APPROVAL_REQUIRED or answer is None:
        return None
    return Outcome("approve", dict(answer))
