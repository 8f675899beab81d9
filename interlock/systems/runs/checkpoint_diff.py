"""How two checkpoints of a run's folder differ."""

from __future__ import annotations

from pathlib import Path

from interlock import CallError
from interlock.git.checkpoint_store import CheckpointStore, UnknownCheckpointError
from interlock.git.diff import Diff, diff
from interlock.git.repository import Repository
from interlock.system.pages import DiffSource
from interlock.system.records import Records
from interlock.system.tables import Record
from interlock.systems.runs.checkpoint_list import list_checkpoints
from interlock.systems.runs.machines.run.payloads import RunData
from interlock.systems.runs.machines.run.table import SELF as RUN


def checkpoint_diff(run: Record[RunData], between: str, bytes_max: int, within_s: float) -> Diff:
    """Return how two checkpoints of a run's folder differ, such as `<id>..<id>`.

    Both are whole ids. Raises CallError, GitError and OSError.
    """
    before, _, after = between.partition("..")
    if not (before and after):
        raise CallError("name two checkpoints by their whole ids: BEFORE..AFTER")
    store = CheckpointStore.open(Path(run.data["folder"]), command_s=within_s)
    for sha in store.missing((before, after)):
        raise UnknownCheckpointError(sha)
    checkpoints = Repository(store.root, store.store, store.git)
    return diff(checkpoints, base=before, commit=after, bytes_max=bytes_max, within_s=within_s)


def host_of_run(_: Records, run: Record[RunData]) -> str:
    """Return the computer on which the folder of a run is."""
    return run.data["host"]


def checkpoints_of_folder(records: Records, run: Record[RunData]) -> list[dict[str, str]]:
    """Return the checkpoints of all runs of a run's folder, the oldest first."""
    return [one.fields for one in list_checkpoints(records, run.root)]


SOURCE = DiffSource(
    machines=(RUN, "codon", "workspace"),
    host=host_of_run,
    read=checkpoint_diff,
    checkpoints=checkpoints_of_folder,
)
