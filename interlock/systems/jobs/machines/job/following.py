"""The payloads of the rows of a job that follow from its data alone.

Each is None where another job, a reviewer or a person has a say; an effect, or a person, fires the
row then.
"""

from __future__ import annotations

from interlock.system.tables import RecordData as Data
from interlock.systems.jobs.machines.effects import APPROVAL
from interlock.systems.jobs.machines.job.changes import reviewable
from interlock.systems.jobs.machines.job.data import JobData
from interlock.systems.jobs.machines.job.payloads import ReviewVerdict


def no_dependencies(data: JobData) -> Data | None:
    """Let a job begin that depends on no other."""
    return None if data["met"] or data["depends_on"] else {"tally": {}}


def step(data: JobData) -> Data | None:
    """Let finished work pass a review that nobody makes."""
    return None if data.get("review") or not reviewable(data) else {}


def review(data: JobData) -> Data | None:
    """Pass work on that has no reviewer."""
    said = {
        "verdict": ReviewVerdict.APPROVAL_REQUIRED,
        "summary": "no reviewer is configured",
    }
    return None if data.get("review") else said


def sign_off(data: JobData) -> Data | None:
    """Approve a job whose producer wants no sign-off."""
    approved = {"by": APPROVAL.name, "reason": "it needs no sign-off"}
    return approved if data["auto_approve"] else None
