"""A job's manifest: computed from the job's log, and kept in a file that is restored from it."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from interlock import Event, Note
from interlock.system.records import Records
from interlock.system.tables import Record
from interlock.systems.jobs.machines.job.changes import phase_of
from interlock.systems.jobs.machines.job.data import JobData
from interlock.systems.jobs.machines.job.names import State, Trigger

MANIFEST_FILE = "job_manifest.json"
LOCK_FILE = ".manifest.lock"
HISTORY_MAX = 1_000  # lines of the log, the newest
MICRO_DOLLARS_PER_CENT = 10_000


def job_folder(records: Records, record: Record[JobData]) -> Path:
    """Return the directory of a job's files: its own `dir`, or one below INTERLOCK_HOME."""
    folder = record.data.get("dir")
    return (Path(folder) if folder else records.settings.home / "jobs" / record.id).resolve()


def manifest_of(record: Record[JobData], lines: Sequence[Event | Note]) -> dict[str, Any]:
    """Compute a job's manifest from its record and log; cost in US cents, time of work in s.

    The history has an entry for each phase that was completed and for each change of state that a
    reader wants to see: the phase, the state, and a summary.
    """
    spent = sum(line.deltas.get("spent", 0) for line in lines)
    time_ms = sum(line.deltas.get("time_ms", 0) for line in lines)
    return {
        "job_id": record.id,
        "description": record.data["description"],
        "status": State(record.state).name,
        "current_phase": phase_of(record.data),
        "metrics": {
            "cumulative_cost": spent / MICRO_DOLLARS_PER_CENT,
            "cumulative_time_seconds": time_ms / 1_000,
        },
        "history": list(_history(record, lines))[-HISTORY_MAX:],
    }


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """Replace the manifest file; a reader sees the old manifest or the new one, never a part."""
    text = json.dumps(manifest, ensure_ascii=False, indent=2) + "\n"
    torn = folder / f"{MANIFEST_FILE}.torn"
    with torn.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    torn.replace(folder / MANIFEST_FILE)


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """Return the manifest in the file; None if the file is missing or damaged."""
    try:
        found = json.loads((folder / MANIFEST_FILE).read_text("utf-8"))
    except (OSError, RecursionError, ValueError):
        return None
    return found if isinstance(found, dict) else None


@contextmanager
def manifest_lock(folder: Path) -> Iterator[None]:
    """Hold the lock under which a job is read and its manifest written, by one process at a time.

    So the process that writes last has read the newest log.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK_FILE).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _history(record: Record[JobData], lines: Sequence[Event | Note]) -> Iterator[dict[str, str]]:
    phases = [phase["name"] for phase in record.data["phases"]]
    index = 0
    for event in (line for line in lines if isinstance(line, Event)):
        if not event.source or event.trigger == Trigger.CONFIGURE:
            named = event.payload.get("phases")
            phases = [phase["name"] for phase in named] if named else phases
        phase = phases[min(index, len(phases) - 1)]
        summary = _summary_of(event)
        match event.trigger:
            case Trigger.PHASE_COMPLETED:
                index += 1
                yield _entry(phase, State.SUCCESS, summary)
            case Trigger.AGENT_COMPLETED:
                index = len(phases)
                yield _entry(phase, State(event.target), summary)
            case _ if event.source not in ("", event.target):
                if _in_history(event):
                    yield _entry(phase, State(event.target), summary)
        index = _phase_after(event, phases, index)


def _in_history(event: Event) -> bool:
    """Whether an event is in the history: the start of waiting or of an attempt is not."""
    silent = (Trigger.ACTIVATE, Trigger.SCHEDULED, Trigger.STEP, Trigger.RESUME, Trigger.UNPAUSE)
    return event.trigger not in silent


def _phase_after(event: Event, phases: list[str], index: int) -> int:
    """Return the index of the phase after an event; a steward may go back to an earlier one."""
    if event.trigger not in (Trigger.REJECT, Trigger.RESUBMIT, Trigger.RESTEP):
        return index
    named = event.payload.get("phase")
    return phases.index(named) if named in phases else min(index, len(phases) - 1)


def _entry(phase: str, state: State, summary: str) -> dict[str, str]:
    return {"phase": phase, "status": state.name, "summary": summary}


def _summary_of(event: Event) -> str:
    """Return the reasons or summary of an event as its author wrote them, or what its row says."""
    payload = event.payload
    reasons = "; ".join(payload.get("reasons") or ())
    texts = (reasons, payload.get("summary"), payload.get("reason"), payload.get("detail"))
    return next((str(text) for text in texts if text), event.cause.reason or event.says)


def manifest_now(records: Records, job_id: str) -> dict[str, Any]:
    """Return the manifest that follows from a job's log now."""
    lines = records.views.history(job_id)
    return manifest_of(records.folded("job", lines), lines)


def restore_manifest(records: Records, record: Record[JobData]) -> str:
    """Compare a job's manifest file with its log, and write it again if it differs.

    Returns "none" if the job has no file on this computer, else "kept", "written" or "restored"; or
    "unwritable", which stops no command, because the effect that writes the file fails as well.
    """
    folder, host = job_folder(records, record), record.data.get("host")
    elsewhere = host not in (None, records.settings.host)
    # A job that names no directory has one in the home of a worker, which need not be this home.
    if elsewhere or not (record.data.get("dir") or folder.is_dir()):
        return "none"
    try:
        with manifest_lock(folder):
            found, expected = read_manifest(folder), manifest_now(records, record.id)
            if found == expected:
                return "kept"
            write_manifest(folder, expected)
    except OSError:
        return "unwritable"
    return "restored" if found is None else "written"
