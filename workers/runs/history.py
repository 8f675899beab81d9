"""The executions that count for a run, read from the records of its codons."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from typing import Any

from interlock.kernel.machines.runs.codon_types import (
    Codon,
    CompletedCodon,
    FailedCodon,
    SkippedCodon,
    codon_of,
)
from interlock.kernel.record import Record, root_of
from interlock.kernel.store.views import Views
from interlock.workers.runs.outcome import CodonEnd
from interlock.workers.runs.sequence import Execution

PAGE = 50


def record_number(record_id: str) -> int:
    """Return the number at the end of a run's or codon's id: 1 is the first of its parent."""
    return int(record_id.rpartition("/")[2])


def run_number(record_id: str) -> int:
    """Return the number of the run that a record is, or that it belongs to."""
    assert root_of(record_id) != record_id, "the id of a run or codon has the run's number"
    return int(record_id.split("/")[1])


def codons_of(views: Views, run_id: str) -> list[Record]:
    """Return the records of a run's codons, the oldest first."""
    found: list[Record] = []
    while True:
        # Their numbers have no gap, because a codon is created only after the one before ended.
        names = [f"{run_id}/{number}" for number in range(len(found) + 1, len(found) + 1 + PAGE)]
        records = views.records(names)
        found += [records[name] for name in names if name in records]
        if len(records) < PAGE:
            return found


def execution_of(record: Record) -> Execution | None:
    """Return the execution that a codon's record is about; None while it has not ended."""
    codon: Codon = codon_of(record)
    loop_context = codon.loop_context
    shared: dict[str, Any] = {
        "record": record.id,
        "codon_id": codon.codon_id.partition("#")[0],
        "iteration": loop_context.iteration if loop_context else None,
    }
    match codon:
        case CompletedCodon():
            return Execution(
                **shared,
                status=CodonEnd.COMPLETED,
                session_id=codon.session_id,
                context_exceeded=codon.context_exceeded,
                budget_exceeded=codon.budget_exceeded is not None,
            )
        case SkippedCodon():
            return Execution(
                **shared,
                status=CodonEnd.SKIPPED,
                session_id=codon.session_id,
                messages=codon.assistant_message_count or 0,
            )
        case FailedCodon():
            return Execution(
                **shared,
                status=CodonEnd.FAILED,
                session_id=codon.session_id,
                ignored=codon.ignored,
                retriable=codon.failure_reason.retriable,
                retry_after_ms=codon.failure_reason.retry_after_ms,
            )
        case _:
            return None


def history(run: Record, codons: Iterable[Record]) -> tuple[list[Execution], int]:
    """Return the executions that count for a run, the oldest first.

    The second value is the index at which the run's own executions start; those before it
    belong to the runs that it continues.
    """
    earlier = [execution_from_stored(stored) for stored in run.data["done"]]
    started_here = [execution for execution in map(execution_of, codons) if execution is not None]
    return [*earlier, *started_here], len(earlier)


def execution_from_stored(stored: Mapping[str, Any]) -> Execution:
    """Return an execution from the form in which the record of a run keeps it."""
    return Execution(**{**stored, "status": CodonEnd(stored["status"])})


def stored_execution(execution: Execution) -> dict[str, Any]:
    """Return an execution as JSON, without the fields that have their default value."""
    defaults = {field.name: field.default for field in fields(Execution)}
    return {name: value for name, value in asdict(execution).items() if value != defaults[name]}
