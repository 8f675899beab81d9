"""The runs of a workspace in the form of the page's state file: its names, its units, its states.

{"currentRunId": null or an id, "runs": [{"runId", "status", ..., "codons": [{"status", "codonId",
...}]}]}. A codon has the fields that the page lists for its state. The file is for other programs:
it has no logs, so a store cannot be restored from it, but it can be validated.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from interlock import CallError
from interlock.system.errors import InvalidPayloadError
from interlock.system.tables import Record
from interlock.systems.runs.archive.archive import is_archive, state_in
from interlock.systems.runs.archive.backup import write_with_backup
from interlock.systems.runs.archive.consistency import checkpoint_shas
from interlock.systems.runs.archive.export import ExportError, WrittenExport
from interlock.systems.runs.archive.findings import Fault, Finding, Validation, validation
from interlock.systems.runs.archive.validation import shas_missing
from interlock.systems.runs.machines.codon.payloads import CodonData
from interlock.systems.runs.machines.codon_types import codon_from, codon_of
from interlock.systems.runs.machines.published_names import (
    from_published,
    published_name,
    to_published,
)
from interlock.systems.runs.machines.run.payloads import RunData
from interlock.systems.runs.machines.run.table import State
from interlock.systems.runs.machines.translation import branch_of
from interlock.systems.runs.machines.values import fitting

Family = Sequence[tuple[Record[RunData], Sequence[Record[CodonData]]]]


class _Source(BaseModel):
    checkpoint_sha: str | None = None


class _StartingConditions(BaseModel):
    source: _Source | None = None


class _StateRun(BaseModel):
    """What the checks need of a run in a state file; the page may have more."""

    run_id: str
    codons: list[dict[str, Any]] = []
    starting_conditions: _StartingConditions = _StartingConditions()
    initial_checkpoint: str | None = None


def published_run(run: Record[RunData], codons: Sequence[Record[CodonData]]) -> dict[str, Any]:
    """Return a run and its codons, the oldest first, in the page's form."""
    ended = {} if run.state == State.RUNNING else {"end_time": run.since_ms}
    checkpoint = run.data.get("initial_checkpoint")
    fields = {
        "run_id": run.id,
        "status": run.state,
        "start_time": run.created_ms,
        **ended,
        "run_folder": run.data["folder"],
        "branch": branch_of(run.id),
        "host": run.data["host"],
        "starting_conditions": run.data["starting"],
        **({"initial_checkpoint": checkpoint} if checkpoint else {}),
        "codons": [_codon_fields(codon) for codon in codons],
    }
    published: dict[str, Any] = to_published(fields)
    return published


def published_costs(
    run: Record[RunData], codons: Sequence[Record[CodonData]], costs: Mapping[str, int]
) -> Any:
    """Return the costs of the newest run and of all runs, as the page's cache names them.

    `since`, the costs of one run and the newer ones, is there where `costs` has it.
    """
    names = {"run": "currentRun", "total": "total", "since": "since"}
    micro = {published: costs[ours] for ours, published in names.items() if ours in costs}
    dollars = {name: to_published({"cost": value})["cost"] for name, value in micro.items()}
    return {**dollars, "runId": run.id, "codons": published_run(run, codons)["codons"]}


def write_state_file(file: Path, family: Family) -> WrittenExport:
    """Write runs, the oldest first, as the page does: a backup, a temporary file, a rename.

    Raises ExportError where the file cannot be written, or is an export of the other format.
    """

    def is_complete(old: bytes) -> bool:
        if is_archive(old):
            raise ExportError(
                f"{file} is an export that `interlock run import` can read, which a state file "
                "does not replace; write to another file"
            )
        return state_in(old) is not None

    running = [run.id for run, _ in family if run.state == State.RUNNING]
    state = {
        "currentRunId": running[0] if running else None,
        "runs": [published_run(run, codons) for run, codons in family],
    }
    content = json.dumps(state, indent=2).encode() + b"\n"
    try:
        write_with_backup(file, content, is_complete=is_complete)
    except OSError as refusal:
        raise ExportError(f"{file} cannot be written: {refusal}") from refusal
    return WrittenExport(file, sum(1 + len(codons) for _, codons in family))


def validate_state_file(file: Path, folder: Path | None) -> Validation | None:
    """Return what is wrong with a state file, or None where the file is none.

    With a folder also the checkpoints that it lacks.
    """
    try:
        state = state_in(file.read_bytes())
    except OSError:
        state = None
    return None if state is None else validation(_findings(state, str(file), folder))


def _findings(state: Mapping[str, Any], where: str, folder: Path | None) -> Iterator[Finding]:
    try:
        runs = [_state_run(f"runs.{n}", run) for n, run in enumerate(state["runs"])]
    except CallError as refusal:
        yield Finding(Fault.CORRUPTED_DATA, where, str(refusal))
        return
    current = state.get("currentRunId")
    ids = [run.run_id for run in runs]
    if current is not None and current not in ids:
        yield Finding(Fault.MISSING_RUN, where, f"currentRunId is {current}, which is no run of it")
    named: dict[str, str] = {}
    for run in runs:
        starting = run.starting_conditions.model_dump(exclude_none=True)
        data = {"initial_checkpoint": run.initial_checkpoint, "starting": starting}
        named |= dict.fromkeys(checkpoint_shas(data), run.run_id)
        for codon in run.codons:
            name = f"codon {codon.get('codon_id')} of {run.run_id}"
            try:
                read = codon_from(codon, name)
            except InvalidPayloadError as refusal:
                problems = map(_published_problem, refusal.problems)
                yield Finding(Fault.INVALID_CODON, name, "; ".join(problems))
                continue
            named |= dict.fromkeys(checkpoint_shas(read.model_dump(exclude_none=True)), name)
    if folder is not None:
        yield from shas_missing(named, folder, where)


def _published_problem(problem: str) -> str:
    where, _, what = problem.partition(": ")
    return f"{'.'.join(map(published_name, where.split('.')))}: {what}"


def _state_run(subject: str, run: Any) -> _StateRun:
    if not isinstance(run, dict):
        raise InvalidPayloadError(subject, [f"it is {type(run).__name__}, not an object"])
    try:
        with fitting(subject):
            return _StateRun.model_validate(from_published(run))
    except InvalidPayloadError as refusal:
        raise InvalidPayloadError(subject, [*map(_published_problem, refusal.problems)]) from None
    except RecursionError:
        raise InvalidPayloadError(subject, ["it is nested too deeply"]) from None


def _codon_fields(record: Record[CodonData]) -> dict[str, Any]:
    return codon_of(record).model_dump(mode="json", exclude_none=True)
