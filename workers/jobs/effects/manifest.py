"""Rewrites a job's manifest, so that its file says what its log adds up to."""

from __future__ import annotations

from pathlib import Path

from interlock.workers.engine.work import Work
from interlock.workers.jobs.manifest import alone_at, manifest_now, write_manifest


def manifest(work: Work) -> None:
    """Write it as the job is now: whoever writes last has read the latest."""
    folder = Path(work.record.data["dir"])
    with alone_at(folder):
        write_manifest(folder, manifest_now(work.dispatch, work.record.id))
