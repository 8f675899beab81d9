"""What a worker or reviewer is told of its job: a file, and variables; it decides nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from interlock.kernel.machines.jobs.job.changes import phase_of
from interlock.kernel.record import Record, root_of
from interlock.workers.config import PREFIX, environment_of_work
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.work import Work
from interlock.workers.jobs.evidence import kept_file

BRIEF = "brief.json"
REPLY = "reply.json"
WORDS = ("description", "objective", "details", "acceptance", "guidance")


def folder_of(work: Work) -> Path:
    """Return the directory in which a job keeps what it made; it is made where it is missing."""
    folder = place_of(work.dispatch, work.record)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def place_of(dispatch: Dispatch, record: Record) -> Path:
    """Return where a job keeps what it made: its own directory, or one below the home."""
    named = record.data.get("dir")
    return (Path(named) if named else dispatch.settings.home / "jobs" / record.id).resolve()


def brief_of(dispatch: Dispatch, record: Record, role: str) -> dict[str, Any]:
    """Return what there is to know: the job, what was said of it, what it builds on."""
    data = record.data
    found: dict[str, Any] = {"job": record.id, "phase": phase_of(data), "role": role}
    found |= {name: data[name] for name in WORDS}
    found |= {"summary": data.get("summary", ""), "evidence": _evidence(dispatch, record)}
    records = dispatch.views.records(data["depends_on"])
    found["dependencies"] = {
        _name(record, other): {
            "dir": str(place_of(dispatch, records[other])),
            "state": records[other].state,
            "summary": records[other].data.get("summary", ""),
            "evidence": _evidence(dispatch, records[other]),
        }
        for other in data["depends_on"]
        if other in records
    }
    return found


def write_brief(folder: Path, brief: Mapping[str, Any]) -> Path:
    """Write it for a command to read."""
    file = folder / BRIEF
    torn = folder / f"{BRIEF}.torn"
    torn.write_text(json.dumps(brief, ensure_ascii=False, indent=2) + "\n", "utf-8")
    torn.replace(file)
    return file


def variables(record: Record, role: str, folder: Path, run: Path, key: str) -> dict[str, str]:
    """Return a command's environment: the worker's own without its settings, and its job."""
    told = {
        "ID": record.id,
        "PHASE": phase_of(record.data),
        "ROLE": role,
        "DIR": str(folder),
        "BRIEF": str(run / BRIEF),
        "REPLY": str(run / REPLY),
        "KEY": key,
        "RUN": str(record.data["runs"]),
    }
    return environment_of_work({f"{PREFIX}JOB_{name}": value for name, value in told.items()})


def _name(record: Record, other: str) -> str:
    """Return how a job's own graph calls another job: without the graph where it is the same."""
    graph = f"{root_of(record.id)}/"
    return other.removeprefix(graph)


def _evidence(dispatch: Dispatch, record: Record) -> list[dict[str, str]]:
    folder = place_of(dispatch, record)
    return [
        {
            "path": str(kept_file(folder, one["sha256"])),
            "name": one["path"],
            "sha256": one["sha256"],
        }
        for one in record.data.get("evidence", ())
    ]
