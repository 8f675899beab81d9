"""What is read of jobs: a manifest from the log, and the file that should say the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from interlock.kernel.record import Record
from interlock.kernel.store.fold import fold
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.jobs.manifest import alone_at, manifest_of, read_manifest, write_manifest


def manifest_now(dispatch: Dispatch, job_id: str) -> dict[str, Any]:
    """Return the manifest that a job's log adds up to at this moment."""
    lines = dispatch.views.history(job_id)
    return manifest_of(fold(dispatch.lifecycle.machine("job"), lines), lines)


def restore_manifest(dispatch: Dispatch, record: Record) -> str:
    """Compare a job's manifest file with its log, and write it anew where it differs.

    Answers none (the job keeps no file, or not on this machine), kept, written, restored, or
    unwritable: then its effect says so, and the command that looked goes on.
    """
    folder, host = record.data.get("dir"), record.data.get("host")
    if not folder or host not in (None, dispatch.settings.host):
        return "none"
    place = Path(folder)
    try:
        with alone_at(place):
            found, right = read_manifest(place), manifest_now(dispatch, record.id)
            if found == right:
                return "kept"
            write_manifest(place, right)
    except OSError:
        return "unwritable"
    return "restored" if found is None else "written"
