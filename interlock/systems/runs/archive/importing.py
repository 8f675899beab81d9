"""Restores the runs of a workspace from an export, into a store that lost them.

The logs contain the ids, the folder and the computer, so an export can only be restored for the
folder and the computer from which it was made. No run can start there until the import is complete.
An import that was interrupted continues when it is repeated.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from interlock import CallError
from interlock.system.errors import UnknownRecordError
from interlock.system.records import Records
from interlock.system.tables import Record
from interlock.systems.runs.archive.archive import Archive
from interlock.systems.runs.archive.export import read_export
from interlock.systems.runs.machines.run.table import SELF as RUN
from interlock.systems.runs.machines.workspace.table import WorkspaceData
from interlock.systems.runs.paths import workspace_id


class ImportRefusedError(CallError):
    """An export cannot be restored here. The message says why; nothing was replaced."""


@dataclass(frozen=True, slots=True)
class ImportResult:
    """The result of an import: its file, the records it restored, and those that existed before."""

    workspace: Record
    source: Path
    written: int
    existing: int
    warnings: tuple[str, ...] = ()


def import_export(records: Records, file: Path, folder: Path) -> ImportResult:
    """Restore an export. Raises ExportError, ImportRefusedError, RestoreRefusedError."""
    found = read_export(file, records.machines)
    _refuse_elsewhere(records, found.archive, folder)
    _refuse_over_another(records, found.archive)
    root = found.archive.workspace
    restoration = records.restoration(RUN)
    results = [restoration.restore(archived.kept) for archived in found.archive.records]
    restoration.restore_family_log(root, found.archive.commits)
    workspace = records.views.record(root)
    detail = {"actor": records.actor, "file": str(found.source), "records": len(results)}
    records.note(workspace, "imported", detail, op_id=f"imported:{found.archive.exported_ms}")
    restoration.finish(root)
    written, existing = results.count(True), results.count(False)
    return ImportResult(workspace, found.source, written, existing, found.warnings)


def _refuse_elsewhere(records: Records, archive: Archive, folder: Path) -> None:
    host, resolved = records.settings.host, folder.resolve()
    if workspace_id(folder, host) == archive.workspace:
        return
    root = archive.root
    data = root.record.data if root else {}
    raise ImportRefusedError(
        f"by its logs the export is of {data.get('folder')} on {data.get('host')}; it cannot be "
        f"restored for {resolved} on {host}: put the folder there, or set "
        "INTERLOCK_HOST to the name that the computer had"
    )


def _refuse_over_another(records: Records, archive: Archive) -> None:
    """Refuse where the store has this workspace, unless an import of it was interrupted."""
    root = archive.workspace
    try:
        workspace: Record[WorkspaceData] = records.views.record(root)
    except UnknownRecordError:
        return
    if records.views.holds(root).get(RUN) != records.restoration(RUN).holder(root):
        raise ImportRefusedError(
            f"the store has {workspace.data['folder']} already, so nothing was imported; "
            "`interlock run validate` says whether it is consistent"
        )
