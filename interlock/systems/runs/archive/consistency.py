"""Checks whether the records of a workspace agree with their logs and with each other. Pure.

An export must pass `export_findings`, which leaves out `wrong_earlier_sums`: the sum of earlier
costs that a run stored when it started is in its log and cannot be corrected any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from interlock import KernelError, Machine
from interlock.system.errors import InvalidPayloadError
from interlock.system.tables import Record, shortened
from interlock.systems.runs.archive.archive import Archive, ArchivedRecord, sort_key
from interlock.systems.runs.archive.findings import Fault, Finding
from interlock.systems.runs.machines.codon.names import State
from interlock.systems.runs.machines.codon_types import codon_of
from interlock.systems.runs.machines.run.table import RUN
from interlock.systems.runs.machines.run.table import State as RunState

SUMS = ("cost", "spent")
SHOWN_MAX = 120
MACHINES = ("workspace", "run", "codon")
# Fields that follow from a log, and their names for people.
FIELDS = {
    "state": "state",
    "version": "version",
    "entered": "version of its state",
    "since_ms": "time of its state",
    "created_ms": "time of creation",
    "data": "data",
}
IMPORT_ADVICE = "the log is the truth: `interlock run import` restores it from an export"


def export_findings(archive: Archive, machines: Mapping[str, Machine]) -> list[Finding]:
    """Return the findings that make an export unusable, the worst first."""
    found = [
        finding for archived in archive.records for finding in corruption_of(archived, machines)
    ]
    found += missing_numbers(archive)
    found += [
        finding for archived in archive.at_depth(2) for finding in invalidity_of(archived.record)
    ]
    return found or list(wrong_counters(archive, machines))


def corruption_of(archived: ArchivedRecord, machines: Mapping[str, Machine]) -> Iterator[Finding]:
    """Yield a finding where a record does not follow from its log."""
    record, kind = archived.record, Fault.CORRUPTED_DATA
    expected = MACHINES[record.id.count("/")]
    if record.machine != expected:
        problem = f"it is stored as a {record.machine}, but its id is that of a {expected}"
        yield Finding(kind, record.id, f"{problem}; {IMPORT_ADVICE}")
        return
    try:
        folded = archived.kept.recomputed(machines[record.machine])
    except KernelError as refusal:
        yield Finding(kind, record.id, f"{refusal}; {IMPORT_ADVICE}")
        return
    differ = [
        f"{label} {_short(getattr(record, name))}, the log leads to {_short(getattr(folded, name))}"
        for name, label in FIELDS.items()
        if getattr(record, name) != getattr(folded, name)
    ]
    if differ:
        yield Finding(kind, record.id, f"the record has {'; '.join(differ)}; {IMPORT_ADVICE}")


def invalidity_of(record: Record) -> Iterator[Finding]:
    """Yield a finding where a codon's data does not fit its state."""
    try:
        codon_of(record)
    except (InvalidPayloadError, ValueError) as refusal:
        message = (
            f"{refusal}; no run can be resumed from it: use `interlock run rollback` to go back "
            "to a codon before it"
        )
        yield Finding(Fault.INVALID_CODON, record.id, message)


def missing_numbers(archive: Archive) -> Iterator[Finding]:
    """Yield the runs and codons whose numbers are missing, and codons whose run is missing."""
    runs = [archived.record.id for archived in archive.runs]
    yield from _gaps(archive.workspace, runs, Fault.MISSING_RUN)
    codons = [archived.record for archived in archive.at_depth(2)]
    for run_id in dict.fromkeys(str(codon.parent) for codon in codons):
        names = [codon.id for codon in codons if codon.parent == run_id]
        if run_id not in runs:
            message = f"it is missing, but its codons {', '.join(names)} exist; {IMPORT_ADVICE}"
            yield Finding(Fault.MISSING_RUN, run_id, message)
        yield from _gaps(run_id, names, Fault.INVALID_CODON)


def unfinished(archive: Archive) -> Iterator[Record]:
    """Yield the runs and codons that have not ended."""
    for archived in archive.records[1:]:
        record = archived.record
        is_run = record.machine == RUN.name
        ended = record.state != RunState.RUNNING if is_run else _is_ended_codon(record)
        if not ended:
            yield record


def expected_sums(archive: Archive, machines: Mapping[str, Machine]) -> dict[str, dict[str, int]]:
    """Return the counters that each record should have: its own sums, and those of its family."""
    sums: dict[str, dict[str, int]] = {}
    # Children come after their parents, so in reverse each tree is complete when it is added.
    for archived in reversed(archive.records):
        record, from_data = archived.record, dict.fromkeys(SUMS, 0)
        from_data |= machines[record.machine].counters(record.data)
        counters = sums.setdefault(record.id, {})
        for name in SUMS:
            total = from_data[name] + counters.get(f"tree.{name}", 0)
            counters |= {name: from_data[name], f"tree.{name}": total}
            if parent := record.parent:
                parent_counters = sums.setdefault(parent, {})
                parent_counters[f"tree.{name}"] = parent_counters.get(f"tree.{name}", 0) + total
    return sums


def wrong_counters(archive: Archive, machines: Mapping[str, Machine]) -> Iterator[Finding]:
    """Yield the records whose counters are not the sums of what they count."""
    sums = expected_sums(archive, machines)
    for archived in archive.records:
        record = archived.record
        wrong = {
            name: (record.counters.get(name, 0), expected)
            for name, expected in sums[record.id].items()
            if record.counters.get(name, 0) != expected
        }
        if wrong:
            problems = [
                f"{name} is {stored} and should be {expected}"
                for name, (stored, expected) in wrong.items()
            ]
            remedy = "`interlock run validate --repair` recounts it"
            message = f"{'; '.join(problems)} (micro-dollars); {remedy}"
            yield Finding(Fault.COST_MISMATCH, record.id, message)


def wrong_earlier_sums(archive: Archive, machines: Mapping[str, Machine]) -> Iterator[Finding]:
    """Yield the runs that stored a wrong sum of the costs of the runs before them."""
    sums, before = expected_sums(archive, machines), dict.fromkeys(SUMS, 0)
    for archived in archive.runs:
        record = archived.record
        stored = record.data.get("before", {})
        if any(stored.get(name, 0) != before[name] for name in SUMS):
            message = (
                f"when it started it stored {_short(stored)} as the costs of the runs before it, "
                f"which are {before}; its log cannot be corrected: trust `interlock run costs` for "
                "all runs; instead of using --since with this run, add up the costs of single runs"
            )
            yield Finding(Fault.COST_MISMATCH, record.id, message)
        before = {name: before[name] + sums[record.id][f"tree.{name}"] for name in SUMS}


def checkpoint_shas(data: Mapping[str, Any]) -> Iterator[str]:
    """Yield every checkpoint that the data of a run or a codon name."""
    yield from (str(sha) for name, sha in data.items() if name.endswith("_checkpoint") and sha)
    yield from map(str, data.get("checkpoints", {}).values())
    source = (data.get("starting") or {}).get("source", {})
    if source.get("checkpoint_sha"):
        yield str(source["checkpoint_sha"])


def _gaps(parent: str, existing: Sequence[str], fault: Fault) -> Iterator[Finding]:
    numbers = {sort_key(record_id)[1][-1] for record_id in existing}
    for number in range(1, max(numbers, default=0)):
        if number not in numbers:
            later = f"{parent}/{max(numbers)}"
            message = f"it is missing, but a later one exists: {later}; {IMPORT_ADVICE}"
            yield Finding(fault, f"{parent}/{number}", message)


def _is_ended_codon(record: Record) -> bool:
    try:
        return State(record.state).is_terminal
    except ValueError:
        return False


def _short(value: object) -> str:
    return shortened(repr(value), SHOWN_MAX)
