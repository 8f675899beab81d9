"""A workspace's runs as one file, and back as one value; it brings nothing back into a store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from interlock.kernel.errors import CallError
from interlock.kernel.machine import Machine
from interlock.kernel.machines.runs.workspace.table import NOTHING_READ
from interlock.kernel.record import Record
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.files.durable import backup_of, write_kept
from interlock.workers.runs.archive.archive import (
    Archive,
    BrokenArchiveError,
    read_archive,
    written,
)
from interlock.workers.runs.archive.consistency import kept, live, misremembered
from interlock.workers.runs.archive.findings import Fault, Finding, Validation, validation
from interlock.workers.runs.archive.inventory import inventory
from interlock.workers.runs.archive.validation import checkpoints_missing

Machines = Mapping[str, Machine]


class ExportError(CallError):
    """An export cannot be written or read. Its message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written: where, how many records, and what is to be known of it."""

    file: Path
    records: int
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Export:
    """What was read, and from where: the file, or its backup where that one is torn."""

    archive: Archive
    source: Path
    warnings: tuple[str, ...] = ()


def write_export(dispatch: Dispatch, workspace: Record, file: Path) -> Exported:
    """Write a workspace with all its runs into one file. Raises ExportError.

    Refused while a run is at work, and where a record is damaged: a good export stays as it is.
    """
    _refuse_at_work(dispatch, workspace)
    found = inventory(dispatch, workspace.id)
    if found.moved:
        raise ExportError(f"the runs of {workspace.data['folder']} move; try again")
    wrong = [*found.unread, *kept(found.archive, dispatch.machines)]
    if wrong:
        first = f"{wrong[0].type} at {wrong[0].where}: {wrong[0].message}"
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        problem = f"the runs of {workspace.data['folder']} are not exported as they are"
        raise ExportError(f"{problem}: {first}{more}; `interlock run validate` lists all")
    unended = [*live(found.archive), *found.holds]
    if unended:
        raise ExportError(f"a run began in {workspace.data['folder']} at this moment; try again")
    existed = file.exists()
    try:
        backed_up = write_kept(
            file,
            written(found.archive),
            is_whole=lambda content: not _problem(content, dispatch.machines),
        )
    except OSError as refusal:
        raise ExportError(f"{file} cannot be written: {refusal}") from refusal
    torn = existed and not backed_up
    told = f"{file} was no whole export before; it was replaced, and its backup left as it was"
    return Exported(file, len(found.archive.pasts), (told,) if torn else ())


def read_export(file: Path, machines: Machines) -> Export:
    """Read an export: every log of it folds to its record, and all adds up.

    Where it is torn or corrupt its backup is read, and that is said. Raises ExportError, which
    names what is wrong with each, if there is no whole one.
    """
    first = _read(file, machines)
    if isinstance(first, Archive):
        return Export(first, file)
    second = _read(backup_of(file), machines)
    if isinstance(second, Archive):
        told = f"{file} is not used: {first}; its backup {backup_of(file)}, which is older, is"
        return Export(second, backup_of(file), (told,))
    raise ExportError(f"{file}: {first}; and its backup {backup_of(file)}: {second}")


def validate_export(file: Path, machines: Machines, folder: Path | None) -> Validation:
    """Return what is wrong with an export; with a folder also which checkpoints that has not."""
    where = str(file)
    try:
        archive = read_archive(file.read_bytes())
    except (OSError, BrokenArchiveError) as refusal:
        spare = _read(backup_of(file), machines)
        whole = isinstance(spare, Archive)
        remedy = (
            "reads back whole, and is what an import uses" if whole else f"is bad, too: {spare}"
        )
        message = f"{refusal}; its backup {backup_of(file)} {remedy}"
        return validation([Finding(Fault.CORRUPTED_DATA, where, message)])
    found = kept(archive, machines)
    if not found:
        found += misremembered(archive, machines)
    found += _unended(archive)
    if folder is not None:
        found += checkpoints_missing(archive, folder)
    return validation(found)


def _refuse_at_work(dispatch: Dispatch, workspace: Record) -> None:
    holds, folder = dispatch.views.holds(workspace.id), workspace.data["folder"]
    if holds:
        told = ", ".join(f"{name} {holder}" for name, holder in holds.items())
        raise ExportError(f"{told} has {folder} for itself now; wait for its end, or stop it")
    read = str(workspace.data.get("acknowledged", NOTHING_READ))
    if dispatch.inboxes.after(workspace.id, read, 1):
        raise ExportError(f"events that were told in {folder} are not read yet; is a worker up?")


def _read(file: Path, machines: Machines) -> Archive | str:
    """Return an archive that can be relied on, or why there is none."""
    try:
        content = file.read_bytes()
    except OSError as refusal:
        return f"it cannot be read ({refusal.strerror})"
    return _problem(content, machines) or read_archive(content)


def _problem(content: bytes, machines: Machines) -> str:
    """Say why these bytes are no export that can be relied on, or nothing."""
    try:
        archive = read_archive(content)
    except BrokenArchiveError as refusal:
        return str(refusal)
    wrong = [*kept(archive, machines), *_unended(archive)]
    return f"{wrong[0].type} at {wrong[0].where}: {wrong[0].message}" if wrong else ""


def _unended(archive: Archive) -> list[Finding]:
    return [
        Finding(
            Fault.CORRUPTED_DATA,
            record.id,
            f"it is {record.state}; an export holds only what has ended, so this is none of ours",
        )
        for record in live(archive)
    ]
