"""What a run has executed, read from its records: nothing of it is kept in a process's memory."""

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
from interlock.kernel.record import Record
from interlock.kernel.store.views import Views
from interlock.workers.runs.outcome import Ended
from interlock.workers.runs.sequence import Execution


def number_of(codon: str) -> int:
    """Return which execution of its run a codon's record is, from 1."""
    return int(codon.rpartition("/")[2])


def codons_of(views: Views, run: str) -> list[Record]:
    """Return the records of a run's codons, the first one first."""
    found: list[Record] = []
    page = 50
    while True:
        # They are numbered without a gap, as one is born when the one before has ended.
        names = [f"{run}/{number}" for number in range(len(found) + 1, len(found) + 1 + page)]
        records = views.records(names)
        found += [records[name] for name in names if name in records]
        if len(records) < page:
            return found


def executed(record: Record) -> Execution | None:
    """Return what a codon came to, or None while it lives."""
    codon: Codon = codon_of(record)
    inside = codon.loop_context
    told: dict[str, Any] = {
        "record": record.id,
        "codon_id": codon.codon_id.partition("#")[0],
        "iteration": inside.iteration if inside else None,
    }
    match codon:
        case CompletedCodon():
            return Execution(
                **told,
                status=Ended.COMPLETED,
                session_id=codon.session_id,
                context_exceeded=codon.context_exceeded,
                budget_exceeded=codon.budget_exceeded is not None,
            )
        case SkippedCodon():
            return Execution(
                **told,
                status=Ended.SKIPPED,
                session_id=codon.session_id,
                messages=codon.assistant_message_count or 0,
            )
        case FailedCodon():
            return Execution(
                **told,
                status=Ended.FAILED,
                session_id=codon.session_id,
                ignored=codon.ignored,
                retriable=codon.failure_reason.retriable,
                retry_after_ms=codon.failure_reason.retry_after_ms,
            )
        case _:
            return None


def history(run: Record, codons: Iterable[Record]) -> tuple[list[Execution], int]:
    """Return what counts for a run, oldest first, and where its own part of that begins."""
    before = [kept(one) for one in run.data["done"]]
    own = [one for one in map(executed, codons) if one is not None]
    return [*before, *own], len(before)


def kept(stored: Mapping[str, Any]) -> Execution:
    """Return an execution as a continuation keeps it."""
    return Execution(**{**stored, "status": Ended(stored["status"])})


def stored(one: Execution) -> dict[str, Any]:
    """Return an execution as JSON, without what is as always."""
    usual = {field.name: field.default for field in fields(Execution)}
    return {name: value for name, value in asdict(one).items() if value != usual[name]}
