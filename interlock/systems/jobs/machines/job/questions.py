"""The questions that a job's cards ask."""

from __future__ import annotations

import shlex
from collections.abc import Callable

from interlock.system.tables import as_sentence
from interlock.systems.jobs.machines.job import limits
from interlock.systems.jobs.machines.job.data import JobData
from interlock.systems.jobs.machines.job.names import EVIDENCE_FOLDER


def always_asks(question: str) -> Callable[[JobData], str]:
    """Ask the same whatever the record's data."""
    return lambda _: question


def run_it(data: JobData) -> str:
    """Ask about a job that has lost dependencies, or that is run by hand."""
    lost = ", ".join(f"{job} is {state}" for job, state in sorted(data["lost"].items()))
    question = f"It waits for jobs that did not succeed: {lost}. Run it without them?"
    return question if lost else "Shall it be run now?"


def resubmit(data: JobData) -> str:
    """Ask a steward about a job that cannot go on."""
    failure = data.get("failure")
    reason = as_sentence((failure and failure["detail"]) or "no reason was given")
    return f"It cannot go on: {reason} Repair the cause and resubmit it, or terminate it?"


def approve(data: JobData) -> str:
    """Ask about finished work, with its reviewer's summary."""
    review = data.get("review_result")
    summary = as_sentence(data.get("summary", "")) or "It is done."
    verdict = as_sentence(review["summary"]) if review else ""
    said = f" The reviewer: {verdict}" if verdict else ""
    return f"{summary}{said} Approve it?"


def evidence_command(data: JobData) -> str:
    """Return the command that shows the newest kept files of evidence, or "" if there are none."""
    kept = dict.fromkeys(file["sha256"] for file in data.get("evidence", ()))
    if not (kept and data.get("dir")):
        return ""
    newest = list(kept)[-limits.EVIDENCE_SHOWN_MAX :]
    return shlex.join(("less", *(f"{data['dir']}/{EVIDENCE_FOLDER}/{digest}" for digest in newest)))
