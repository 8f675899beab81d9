"""The executions that count for a run, read from the records of its codons."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from itertools import chain
from typing import Any

from interlock.system.records import Records
from interlock.system.tables import Record
from interlock.systems.runs.machines.codon.payloads import CodonData
from interlock.systems.runs.machines.codon_types import (
    Codon,
    CompletedCodon,
    FailedCodon,
    SkippedCodon,
    codon_of,
)
from interlock.systems.runs.machines.run.payloads import RunData
from interlock.systems.runs.outcome import CodonEnd
from interlock.systems.runs.sequence import Execution

READ_FIRST, READ_MAX = 10, 500  # records below one, in the first round trip and at most


def record_number(record_id: str) -> int:
    """Return the number at the end of a run's or codon's id: 1 is the first of its parent."""
    return int(record_id.rpartition("/")[2])


def run_number(record_id: str) -> int:
    """Return the number of the run that a record is, or that it belongs to."""
    assert "/" in record_id, "the id of a run or codon has the run's number"
    return int(record_id.split("/")[1])


def codons_of(records: Records, run_id: str) -> list[Record[CodonData]]:
    """Return the records of a run's codons, the oldest first."""
    return numbered_below(records, [run_id])[run_id]


def numbered_below(
    records: Records, parent_ids: Iterable[str], *, readable: bool = False
) -> dict[str, list[Record]]:
    """Return the runs of each workspace, or the codons of each run, the oldest first.

    What is read at once for all of them grows with each round trip, so that it takes few. With
    `readable`, those that are damaged are left out, as `Views.records` leaves them out.
    """
    readable_by = records.machines if readable else None
    found: dict[str, list[Record]] = {parent: [] for parent in parent_ids}
    unread, first, size = list(found), 1, READ_FIRST
    while unread:
        # Their numbers have no gap, because each is created only after the one before ended.
        numbers = range(first, first + size)
        names = {parent: [f"{parent}/{number}" for number in numbers] for parent in unread}
        ids = chain.from_iterable(names.values())
        read = records.views.records(ids, readable_by=readable_by)
        for parent, page in names.items():
            found[parent] += [read[name] for name in page if name in read]
        unread = [parent for parent, page in names.items() if page[-1] in read]
        first, size = first + size, min(4 * size, READ_MAX)
    return found


def execution_of(record: Record[CodonData]) -> Execution | None:
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


def history(
    run: Record[RunData], codons: Iterable[Record[CodonData]]
) -> tuple[list[Execution], int]:
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
