"""Writes the runs of a workspace into one file, and reads such a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from interlock import CallError, Machine
from interlock.system.records import Records
from interlock.system.tables import Record
from interlock.systems.runs.archive.archive import (
    Archive,
    BrokenArchiveError,
    archive_bytes,
    read_archive,
    state_in,
)
from interlock.systems.runs.archive.backup import backup_of, write_with_backup
from interlock.systems.runs.archive.consistency import (
    export_findings,
    unfinished,
    wrong_earlier_sums,
)
from interlock.systems.runs.archive.findings import Fault, Finding, Validation, validation
from interlock.systems.runs.archive.inventory import inventory
from interlock.systems.runs.archive.validation import checkpoints_missing
from interlock.systems.runs.machines.workspace.table import WorkspaceData

Machines = Mapping[str, Machine]


class ExportError(CallError):
    """An export cannot be written or read. Its message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class WrittenExport:
    """An export that was written: its file, the number of records, and warnings."""

    file: Path
    records: int
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReadExport:
    """An export that was read, and its source: the file, or its backup where that is damaged."""

    archive: Archive
    source: Path
    warnings: tuple[str, ...] = ()


def write_export(records: Records, workspace: Record[WorkspaceData], file: Path) -> WrittenExport:
    """Write a workspace with all its runs into one file. Raises ExportError.

    The export is refused while a run is running, and where a record is damaged, so that a damaged
    export never replaces an older one. It replaces no state file either.
    """

    def is_complete(old: bytes) -> bool:
        if state_in(old) is not None:
            raise ExportError(
                f"{file} is a state file in the page's names, which an export does not replace; "
                "write to another file"
            )
        return not _problem(old, records.machines)

    _refuse_while_active(records, workspace)
    found = inventory(records, workspace.id)
    if found.changed:
        raise ExportError(
            f"the runs of {workspace.data['folder']} changed while they were read; try again"
        )
    wrong = [*found.unreadable, *export_findings(found.archive, records.machines)]
    if wrong:
        first = f"{wrong[0].type} at {wrong[0].where}: {wrong[0].message}"
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        problem = f"the runs of {workspace.data['folder']} are damaged and cannot be exported"
        raise ExportError(f"{problem}: {first}{more}; `interlock run validate` lists all")
    unended = [*unfinished(found.archive), *found.holds]
    if unended:
        raise ExportError(f"a run started in {workspace.data['folder']} at this moment; try again")
    existed = file.exists()
    try:
        backed_up = write_with_backup(file, archive_bytes(found.archive), is_complete=is_complete)
    except OSError as refusal:
        raise ExportError(f"{file} cannot be written: {refusal}") from refusal
    damaged = existed and not backed_up
    warning = f"{file} was no complete export before; it was replaced, and its backup was kept"
    return WrittenExport(file, len(found.archive.records), (warning,) if damaged else ())


def read_export(file: Path, machines: Machines) -> ReadExport:
    """Read an export, and check that its records follow from its logs and that its sums are right.

    Where the file is unusable, its backup is read, and a warning says so. Raises ExportError, which
    names the problems of both, if the backup is unusable too.
    """
    first = _read(file, machines)
    if isinstance(first, Archive):
        return ReadExport(first, file)
    second = _read(backup_of(file), machines)
    if isinstance(second, Archive):
        warning = f"{file} is unusable: {first}; its older backup {backup_of(file)} is used"
        return ReadExport(second, backup_of(file), (warning,))
    raise ExportError(f"{file}: {first}; and its backup {backup_of(file)}: {second}")


def validate_export(file: Path, machines: Machines, folder: Path | None) -> Validation:
    """Return what is wrong with an export; with a folder also the checkpoints it lacks."""
    where = str(file)
    try:
        archive = read_archive(file.read_bytes())
    except (OSError, BrokenArchiveError) as refusal:
        backup = _read(backup_of(file), machines)
        usable = isinstance(backup, Archive)
        remedy = "is usable, and an import reads it" if usable else f"is unusable too: {backup}"
        message = f"{refusal}; its backup {backup_of(file)} {remedy}"
        return validation([Finding(Fault.CORRUPTED_DATA, where, message)])
    found = export_findings(archive, machines)
    if not found:
        found += wrong_earlier_sums(archive, machines)
    found += _unended(archive)
    if folder is not None:
        found += checkpoints_missing(archive, folder)
    return validation(found)


def _refuse_while_active(records: Records, workspace: Record[WorkspaceData]) -> None:
    holds, folder = records.views.holds(workspace.id), workspace.data["folder"]
    if holds:
        holders = ", ".join(f"{name} {holder}" for name, holder in holds.items())
        raise ExportError(f"{folder} is held by {holders} now; wait for its end, or stop it")
    if records.inboxes.after(workspace.id, workspace.data["acknowledged"], 1):
        raise ExportError(
            f"events that were delivered to {folder} are not read yet; is a worker up?"
        )


def _read(file: Path, machines: Machines) -> Archive | str:
    """Return the archive of a usable export, or why it is unusable."""
    try:
        content = file.read_bytes()
    except OSError as refusal:
        return f"it cannot be read ({refusal.strerror})"
    return _problem(content, machines) or read_archive(content)


def _problem(content: bytes, machines: Machines) -> str:
    """Return why these bytes are no usable export, or an empty text."""
    try:
        archive = read_archive(content)
    except BrokenArchiveError as refusal:
        return str(refusal)
    wrong = [*export_findings(archive, machines), *_unended(archive)]
    return f"{wrong[0].type} at {wrong[0].where}: {wrong[0].message}" if wrong else ""


def _unended(archive: Archive) -> list[Finding]:
    return [
        Finding(
            Fault.CORRUPTED_DATA,
            record.id,
            f"it is {record.state}, but an export has ended records only; export again",
        )
        for record in unfinished(archive)
    ]
