"""A job's manifest: what its log adds up to, and the file that shows it; the log is the truth."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from interlock.kernel.event import Event, Note
from interlock.kernel.machines.jobs.job.changes import phase_of
from interlock.kernel.machines.jobs.job.names import State, Trigger
from interlock.kernel.record import Record
from interlock.kernel.store.fold import fold
from interlock.workers.engine.dispatch import Dispatch

FILE = "job_manifest.json"
LOCK = ".manifest.lock"
HISTORY_MAX = 1_000
MICRO_A_CENT = 10_000


def manifest_of(record: Record, lines: Sequence[Event | Note]) -> dict[str, Any]:
    """Return what the log of a job adds up to. Cost in US cents, time at work in s.

    The history has an entry for each time it stood still or ended: the phase it was in, the state,
    and what was said.
    """
    deltas = [line.deltas for line in lines]
    spent = sum(one.get("spent", 0) for one in deltas)
    time_ms = sum(one.get("time_ms", 0) for one in deltas)
    return {
        "job_id": record.id,
        "description": record.data["description"],
        "status": State(record.state).name,
        "current_phase": phase_of(record.data),
        "metrics": {
            "cumulative_cost": spent / MICRO_A_CENT,
            "cumulative_time_seconds": time_ms / 1_000,
        },
        "history": list(_history(record, lines))[-HISTORY_MAX:],
    }


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """Write a manifest whole, or not at all; a reader sees the old one or the new one."""
    text = json.dumps(manifest, ensure_ascii=False, indent=2) + "\n"
    torn = folder / f"{FILE}.torn"
    with torn.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    torn.replace(folder / FILE)


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """Return what the file says; None where there is none, or it is torn."""
    try:
        found = json.loads((folder / FILE).read_text("utf-8"))
    except (OSError, RecursionError, ValueError):
        return None
    return found if isinstance(found, dict) else None


@contextmanager
def alone_at(folder: Path) -> Iterator[None]:
    """Let one at a time read a job and write its manifest: the last one has read the latest."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _history(record: Record, lines: Sequence[Event | Note]) -> Iterator[dict[str, str]]:
    phases = [phase["name"] for phase in record.data["phases"]]
    at = 0
    for event in (line for line in lines if isinstance(line, Event)):
        if event.trigger in ("created", Trigger.CONFIGURE):
            named = event.payload.get("phases")
            phases = [phase["name"] for phase in named] if named else phases
        phase = phases[min(at, len(phases) - 1)]
        said = _said(event)
        match event.trigger:
            case Trigger.PHASE_COMPLETED:
                at += 1
                yield _entry(phase, State.SUCCESS, said)
            case Trigger.AGENT_COMPLETED:
                at = len(phases)
                yield _entry(phase, State(event.target), said)
            case _ if event.source != event.target and event.trigger != "created":
                if _tells(event):
                    yield _entry(phase, State(event.target), said)
        at = _back(event, phases, at)


def _tells(event: Event) -> bool:
    """Whether a reader of the history wants to see it: not that it was begun, or lined up."""
    silent = (Trigger.ACTIVATE, Trigger.SCHEDULED, Trigger.STEP, Trigger.RESUME, Trigger.UNPAUSE)
    return event.trigger not in silent


def _back(event: Event, phases: list[str], at: int) -> int:
    """Return the phase after an event that may lead back to an earlier one."""
    if event.trigger not in (Trigger.REJECT, Trigger.RESUBMIT, Trigger.RESTEP):
        return at
    named = event.payload.get("phase")
    return phases.index(named) if named in phases else min(at, len(phases) - 1)


def _entry(phase: str, state: State, summary: str) -> dict[str, str]:
    return {"phase": phase, "status": state.name, "summary": summary}


def _said(event: Event) -> str:
    """Return what was said at an event, in the words of who said it."""
    payload = event.payload
    reasons = "; ".join(payload.get("reasons") or ())
    words = (reasons, payload.get("summary"), payload.get("reason"), payload.get("detail"))
    fallback = event.cause.reason
    return next((str(one) for one in words if one), fallback) or ""


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
