"""The folders in which supervisors of agents keep launch specs, logs and output."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from interlock import Settings
from interlock.system.tables import record_id

FOLDER = "supervisors"


def work_folder_of(agent: str, settings: Settings) -> Path:
    """Return the folder of an agent's supervisor on this computer."""
    return settings.home.absolute() / work_folder_below_home(agent)


def work_folder_below_home(agent: str) -> Path:
    """Return the folder of an agent's supervisor, relative to the home of its computer."""
    root, _, name = record_id(agent).partition("/agent~")
    return Path(FOLDER) / root / name


def delete_old_work_folders(settings: Settings) -> int:
    """Delete the folders that are older than records are kept; return how many."""
    before = time.time() - settings.prune_after_s
    folders = (settings.home.absolute() / FOLDER).glob("*/*")
    old = [folder for folder in folders if _last_written(folder) < before]
    for folder in old:
        shutil.rmtree(folder, ignore_errors=True)
    return len(old)


def _last_written(work_folder: Path) -> float:
    """Return when a file in the folder was last written. A running agent writes to its log."""
    return max(file.stat().st_mtime for file in (work_folder, *work_folder.iterdir()))
