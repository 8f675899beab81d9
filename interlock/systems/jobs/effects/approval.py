"""Approves jobs that need no person and wait all the same.

The commit of their review approves them. Workers of a version before that left it to this effect,
and records which they brought there may still owe it.
"""

from __future__ import annotations

from interlock import EffectWork, Outcome
from interlock.systems.jobs.machines.job import following
from interlock.systems.jobs.machines.job.data import JobData
from interlock.systems.jobs.machines.job.names import State, Trigger


def approval(work: EffectWork[JobData]) -> Outcome | None:
    """Approve a job that still waits for approval."""
    answer = following.sign_off(work.record.data)
    if work.record.state != State.APPROVAL_REQUIRED or answer is None:
        return None
    return Outcome(Trigger.APPROVE, dict(answer))
