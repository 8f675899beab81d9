"""Rewrites a job's manifest file from its log."""

from __future__ import annotations

from pathlib import Path

from interlock.workers.engine.work import Work
from interlock.workers.jobs.manifest import manifest_lock, manifest_now, write_manifest


def manifest(work: Work) -> None:
    """Read the log and write the manifest under one lock, so that the newest is written last."""
    folder = Path(work.record.data["dir"])
    with manifest_lock(folder):
        write_manifest(folder, manifest_now(work.dispatch, work.record.id))
