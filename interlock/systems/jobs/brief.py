"""The brief of a worker or reviewer: a file with the job's fields, and environment variables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from interlock import EffectWork
from interlock.system.agents import environment_of_work
from interlock.system.records import PREFIX, Dispatch
from interlock.system.tables import Record, root_of
from interlock.systems.jobs.evidence import kept_file
from interlock.systems.jobs.machines.job.changes import phase_of
from interlock.systems.jobs.manifest import job_folder

BRIEF_FILE = "brief.json"
REPLY_FILE = "reply.json"
TEXT_FIELDS = ("description", "objective", "details", "acceptance", "guidance")


def make_job_folder(work: EffectWork) -> Path:
    """Return the directory in which a job keeps its files; create it if it is missing."""
    folder = job_folder(work.dispatch, work.record)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def brief_of(dispatch: Dispatch, record: Record, role: str) -> dict[str, Any]:
    """Return a job's brief: its fields and evidence, and the results of its dependencies."""
    data = record.data
    found: dict[str, Any] = {"job": record.id, "phase": phase_of(data), "role": role}
    found |= {name: data[name] for name in TEXT_FIELDS}
    found |= {"summary": data.get("summary", ""), "evidence": _evidence(dispatch, record)}
    records = dispatch.views.records(data["depends_on"])
    found["dependencies"] = {
        _name_in_graph(record, other): {
            "dir": str(job_folder(dispatch, records[other])),
            "state": records[other].state,
            "summary": records[other].data.get("summary", ""),
            "evidence": _evidence(dispatch, records[other]),
        }
        for other in data["depends_on"]
        if other in records
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
    record: Record, role: str, folder: Path, run_folder: Path, key: str
) -> dict[str, str]:
    """Return a command's environment: the worker's own without settings, and the job's values."""
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
    return environment_of_work({f"{PREFIX}JOB_{name}": value for name, value in values.items()})


def _name_in_graph(record: Record, other: str) -> str:
    """Return the name of another job for this one: without the graph if they share it."""
    graph = f"{root_of(record.id)}/"
    return other.removeprefix(graph)


def _evidence(dispatch: Dispatch, record: Record) -> list[dict[str, str]]:
    folder = job_folder(dispatch, record)
    return [
        {
            "path": str(kept_file(folder, file["sha256"])),
            "name": file["path"],
            "sha256": file["sha256"],
        }
        for file in record.data.get("evidence", ())
    ]
