"""The brief of a worker or reviewer: a file with the job's fields, and environment variables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from interlock import EffectWork
from interlock.system.records import Records
from interlock.system.tables import Record
from interlock.systems.jobs.evidence import kept_file
from interlock.systems.jobs.machines.job.changes import phase_of
from interlock.systems.jobs.machines.job.data import JobData
from interlock.systems.jobs.manifest import job_folder

BRIEF_FILE = "brief.json"
REPLY_FILE = "reply.json"


def make_job_folder(work: EffectWork[JobData]) -> Path:
    """Return the directory in which a job keeps its files; create it if it is missing."""
    folder = job_folder(work.records, work.record)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def brief_of(records: Records, record: Record[JobData], role: str) -> dict[str, Any]:
    """Return a job's brief: its fields and evidence, and the results of its dependencies."""
    data = record.data
    found: dict[str, Any] = {"job": record.id, "phase": phase_of(data), "role": role}
    found |= {"description": data["description"], "objective": data["objective"]}
    found |= {"details": data["details"], "acceptance": data["acceptance"]}
    found |= {"guidance": data["guidance"]}
    found |= {"summary": data.get("summary", ""), "evidence": _evidence(records, record)}
    found_jobs = records.views.records(data["depends_on"])
    found["dependencies"] = {
        _name_in_graph(record, other): {
            "dir": str(job_folder(records, found_jobs[other])),
            "state": found_jobs[other].state,
            "summary": found_jobs[other].data.get("summary", ""),
            "evidence": _evidence(records, found_jobs[other]),
        }
        for other in data["depends_on"]
        if other in found_jobs
    }
    return found


def write_brief(folder: Path, brief: Mapping[str, Any]) -> Path:
    """Write a brief as a file that a command can read."""
    file = folder / BRIEF_FILE
    torn = folder / f"{BRIEF_FILE}.torn"
    torn.write_text(json.dumps(brief, ensure_ascii=False, indent=2) + "\n", "utf-8")
    torn.replace(file)
    return file


def variables(
    record: Record[JobData], role: str, folder: Path, run_folder: Path, key: str
) -> dict[str, str]:
    """Return the variables that describe a job to its command."""
    values = {
        "ID": record.id,
        "PHASE": phase_of(record.data),
        "ROLE": role,
        "DIR": str(folder),
        "BRIEF": str(run_folder / BRIEF_FILE),
        "REPLY": str(run_folder / REPLY_FILE),
        "KEY": key,
        "RUN": str(record.data["runs"]),
    }
    return {f"INTERLOCK_JOB_{name}": value for name, value in values.items()}


def _name_in_graph(record: Record[JobData], other: str) -> str:
    """Return the name of another job for this one: without the graph if they share it."""
    return other.removeprefix(f"{record.root}/")


def _evidence(records: Records, record: Record[JobData]) -> list[dict[str, str]]:
    folder = job_folder(records, record)
    return [
        {
            "path": str(kept_file(folder, file["sha256"])),
            "name": file["path"],
            "sha256": file["sha256"],
        }
        for file in record.data.get("evidence", ())
    ]
