"""Validates the runs of a workspace: its records, its checkpoints and its folders.

It changes nothing. A record that cannot be read becomes a finding, and stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from interlock.git.checkpoint_files import CheckpointStoreError
from interlock.git.checkpoint_store import CheckpointStore
from interlock.git.errors import GitError
from interlock.system.records import Records
from interlock.systems.runs.archive.archive import Archive
from interlock.systems.runs.archive.consistency import (
    checkpoint_shas,
    corruption_of,
    invalidity_of,
    missing_numbers,
    unfinished,
    wrong_counters,
    wrong_earlier_sums,
)
from interlock.systems.runs.archive.findings import Fault, Finding, Validation, validation
from interlock.systems.runs.archive.inventory import Inventory, inventory
from interlock.systems.runs.machines.codon.names import SELF as CODON
from interlock.systems.runs.machines.effects import CODON_CLEANUP
from interlock.systems.runs.machines.run.table import SELF as RUN
from interlock.systems.runs.machines.run.table import State as RunState
from interlock.systems.runs.paths import RunPaths

# The folder of a workspace's checkpoints, which validation must not create.
STORE = Path(".interlock", "checkpoints")
# How long the codon of an ended run may take to end too.
CLEANUP_MS = CODON_CLEANUP.lease_ms + CODON_CLEANUP.grace_ms
NUMBER = re.compile(r"[0-9]+")


def validate(records: Records, workspace: str) -> Validation:
    """Return everything that is wrong with the runs of a workspace, by the workspace's id."""
    return validation(_findings(records, inventory(records, workspace)))


def validate_runs(records: Records, workspace: str, runs: Collection[str]) -> Validation:
    """Return what is wrong with a workspace's record, its holders, and some of its runs.

    Sums of costs, checkpoints and folders are not looked at. Nothing is found while the records
    change: then a run is running, and its supervisor is the one that writes them.
    """
    found = inventory(records, workspace, runs)
    if found.changed:
        return validation(())
    # The other runs were not read, so they look like gaps in the numbers.
    return validation(
        finding
        for finding in _record_findings(records, found)
        if "/".join(finding.where.split("/")[:2]) in {workspace, *runs}
    )


def checkpoints_missing(archive: Archive, folder: Path) -> Iterator[Finding]:
    """Yield the checkpoints that records name and that the folder lacks, or cannot show."""
    named = {
        sha: str(archived.record.id)
        for archived in archive.records
        for sha in checkpoint_shas(archived.record.data)
    }
    yield from shas_missing(named, folder, archive.workspace)


def shas_missing(named: Mapping[str, str], folder: Path, where: str) -> Iterator[Finding]:
    """Yield the checkpoints that the folder lacks, or a finding at `where` if it has none at all.

    `named` says which run or codon names each.
    """
    if not named:
        return
    kind, store = Fault.MISSING_CHECKPOINT, folder / STORE
    if not store.is_dir():
        message = (
            f"the {len(named)} checkpoints of its runs are gone, because {store} is not a folder; "
            "restore it from a copy, else no run can be rolled back or resumed"
        )
        yield Finding(kind, where, message)
        return
    try:
        missing = CheckpointStore.open(folder).missing(named)
    except (CheckpointStoreError, GitError) as refusal:
        yield Finding(kind, where, str(refusal))
        return
    for sha in missing:
        message = (
            f"it names checkpoint {sha}, which no branch in {store} leads to; restore the folder "
            "from a copy, or roll back to another: `interlock run checkpoints` lists them"
        )
        yield Finding(kind, named[sha], message)


def orphaned_folders(
    records: Records, archive: Archive, unreadable: Iterable[str]
) -> Iterator[tuple[Path, str]]:
    """Yield the work folders that belong to no record, with the id that the record would have."""
    known = {archived.record.id for archived in archive.records} | set(unreadable)
    for run_folder in _folders(RunPaths(archive.workspace, records.settings).work_folder):
        run_id = f"{archive.workspace}/{run_folder.name}"
        if run_id not in known:
            yield run_folder, run_id
            continue
        for folder in _folders(run_folder):
            number = int(folder.name) if NUMBER.fullmatch(folder.name) else folder.name
            if (codon_id := f"{run_id}/{number}") not in known:
                yield folder, codon_id


def finished_holders(found: Inventory) -> Iterator[tuple[str, str]]:
    """Yield each name whose holder is missing or has ended, with that holder."""
    unreadable = {
        finding.where for finding in found.unreadable if finding.type is Fault.CORRUPTED_DATA
    }
    active = {record.id for record in unfinished(found.archive)}
    for name, holder in found.holds.items():
        if holder not in {found.importer, *unreadable, *active}:
            yield name, holder


def _findings(records: Records, found: Inventory) -> Iterator[Finding]:
    archive, machines = found.archive, records.machines
    unreadable = {finding.where for finding in found.unreadable}
    of_records = list(_record_findings(records, found))
    yield from of_records
    if archive.root is not None:
        folder = Path(str(archive.root.record.data.get("folder", "")))
        yield from checkpoints_missing(archive, folder)
    damaged = any(finding.type is Fault.CORRUPTED_DATA for finding in of_records)
    if found.is_complete and not damaged:
        yield from wrong_counters(archive, machines)
        yield from wrong_earlier_sums(archive, machines)
    for orphaned, _ in orphaned_folders(records, archive, unreadable):
        message = (
            f"the folder {orphaned} belongs to no run or codon of this store; "
            "`interlock run validate --repair` moves it away, or delete it"
        )
        yield Finding(Fault.ORPHANED_FOLDER, archive.workspace, message)


def _record_findings(records: Records, found: Inventory) -> Iterator[Finding]:
    """Yield findings that need nothing but the records that were read, with their logs."""
    archive = found.archive
    unreadable = {finding.where for finding in found.unreadable}
    yield from found.unreadable
    for archived in archive.records:
        yield from corruption_of(archived, records.machines)
    yield from (finding for finding in missing_numbers(archive) if finding.where not in unreadable)
    yield from _hold_findings(found)
    for archived in archive.at_depth(2):
        yield from invalidity_of(archived.record)
    yield from _misplaced_codons(found)


def _hold_findings(found: Inventory) -> Iterator[Finding]:
    """Yield findings about the run and the codon that hold the workspace."""
    archive, holds = found.archive, found.holds
    states = {str(archived.record.id): archived.record.state for archived in archive.records}
    free = "`interlock run validate --repair` frees it"
    for name, holder in finished_holders(found):
        fault = Fault.MISSING_RUN if name == RUN else Fault.INVALID_CODON
        condition = f"is {states[holder]}" if holder in states else "is missing"
        message = f"the workspace is held for {name} {holder}, which {condition}; {free}"
        yield Finding(fault, archive.workspace, message)
    if holds.get(RUN) == found.importer:
        message = "an import of its runs was interrupted; repeat it: `interlock run import`"
        yield Finding(Fault.MISSING_RUN, archive.workspace, message)
    for record in unfinished(archive):
        name = RUN if record.machine == "run" else CODON
        if holds.get(name) == record.id:
            continue
        fault = Fault.MISSING_RUN if name == RUN else Fault.INVALID_CODON
        held = f"is held for {holds[name]}" if name in holds else "is held for none"
        message = (
            f"the {record.machine} is {record.state}, but the workspace {held}, so another could "
            "start beside it; end it with `interlock run stop --force`, or restore an export"
        )
        yield Finding(fault, record.id, message)


def _misplaced_codons(found: Inventory) -> Iterator[Finding]:
    """Yield codons that cannot be running: beside another one, or in a run that has ended."""
    archive = found.archive
    codons = [record for record in unfinished(archive) if record.machine == "codon"]
    runs = {str(archived.record.id): archived.record for archived in archive.runs}
    if len(codons) > 1:
        names = ", ".join(f"{codon.id} ({codon.state})" for codon in codons)
        message = f"{len(codons)} codons are running at once: {names}; stop all but the last one"
        yield Finding(Fault.INVALID_CODON, archive.workspace, message)
    for codon in codons:
        run = runs.get(str(codon.parent))
        if run is None or run.state == RunState.RUNNING:
            continue
        ended_for_ms = archive.exported_ms - run.since_ms
        if ended_for_ms > CLEANUP_MS:
            message = (
                f"it is {codon.state}, but its run is {run.state} since {ended_for_ms // 1_000} s: "
                "no worker ends it; start one, for example with `interlock up`"
            )
            yield Finding(Fault.INVALID_CODON, codon.id, message)


def _folders(work_folder: Path) -> list[Path]:
    return (
        sorted(folder for folder in work_folder.iterdir() if folder.is_dir())
        if work_folder.is_dir()
        else []
    )
