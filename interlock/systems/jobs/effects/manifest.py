"""Rewrites a job's manifest file from its log."""

from __future__ import annotations

from interlock import EffectWork
from interlock.systems.jobs.machines.job.data import JobData
from interlock.systems.jobs.manifest import (
    job_folder,
    manifest_lock,
    manifest_now,
    write_manifest,
)


def manifest(work: EffectWork[JobData]) -> None:
    """Read the log and write the manifest under one lock, so that the newest is written last.

    If the job has changed since this was owed, it owes the manifest once more.
    """
    owed_by = int(work.lease.suffix.partition(".")[0])
    if owed_by < work.record.version:
        return
    folder = job_folder(work.records, work.record)
    with manifest_lock(folder):
        write_manifest(folder, manifest_now(work.records, work.record.id))
