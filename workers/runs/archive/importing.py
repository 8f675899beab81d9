"""Brings the runs of a workspace back from an export, into a store that does not know it.

The ids, the folder and the machine are in every log, and stay: an export comes back for the folder
and the machine that it was made of. Nobody can begin a run there until all of it is back; an import
that was interrupted is repeated, and goes on where it stopped.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from interlock.kernel.errors import CallError, UnknownRecordError
from interlock.kernel.machines.runs.run.table import SELF as RUN
from interlock.kernel.record import Record
from interlock.kernel.restoration import HOLDER, Restoration, Restored
from interlock.kernel.store.commands import Jot
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.runs.archive.archive import Archive
from interlock.workers.runs.archive.export import read_export
from interlock.workers.runs.start import workspace_id


class ImportRefusedError(CallError):
    """An export cannot be brought back here. The message says why; nothing was replaced."""


@dataclass(frozen=True, slots=True)
class Imported:
    """What was brought back: from which file, how many records, and how many were there already."""

    workspace: Record
    source: Path
    written: int
    there: int
    warnings: tuple[str, ...] = ()


def import_export(dispatch: Dispatch, file: Path, folder: Path, *, actor: str) -> Imported:
    """Bring an export back. Raises ExportError, ImportRefusedError, RestoreRefusedError."""
    found = read_export(file, dispatch.machines)
    _refuse_elsewhere(dispatch, found.archive, folder)
    _refuse_over_another(dispatch, found.archive)
    root = found.archive.workspace
    restoration = Restoration(dispatch.client, dispatch.keys, dispatch.machines, name=RUN)
    became = Counter(restoration.restore(past.kept) for past in found.archive.pasts)
    restoration.relist(root, found.archive.commits)
    jot = Jot("imported", {"actor": actor, "file": str(found.source), "records": became.total()})
    workspace = dispatch.views.record(root)
    dispatch.note(workspace, jot, op_id=f"imported:{found.archive.exported_ms}")
    restoration.finish(root)
    written, there = became[Restored.WRITTEN], became[Restored.THERE]
    return Imported(workspace, found.source, written, there, found.warnings)


def _refuse_elsewhere(dispatch: Dispatch, archive: Archive, folder: Path) -> None:
    host, whole = dispatch.settings.host, folder.resolve()
    if workspace_id(folder, host) == archive.workspace:
        return
    root = archive.root
    data = root.record.data if root else {}
    raise ImportRefusedError(
        f"the export is of {data.get('folder')} on {data.get('host')}, and its logs say so; it "
        f"cannot be brought back for {whole} on {host}: put the folder there, or set "
        "INTERLOCK_HOST to the name that the machine had"
    )


def _refuse_over_another(dispatch: Dispatch, archive: Archive) -> None:
    """Refuse where the store has this workspace, but for an import that was interrupted."""
    root = archive.workspace
    try:
        workspace = dispatch.views.record(root)
    except UnknownRecordError:
        return
    if dispatch.views.holds(root).get(RUN) != f"{root}/{HOLDER}":
        raise ImportRefusedError(
            f"the store knows {workspace.data['folder']} already, and nothing of it was replaced; "
            "`interlock run validate` says whether it is sound"
        )
