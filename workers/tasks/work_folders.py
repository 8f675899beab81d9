"""What keepers leave on this machine, orders and logs: kept for people, forgotten after a while."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from interlock.workers.config import Settings


def delete_old_work_folders(settings: Settings) -> int:
    """Remove the papers of agents that ended as long ago as records are kept; return how many."""
    before = time.time() - settings.prune_after_s
    every = (settings.home.absolute() / "keepers").glob("*/*")
    old = [work_folder for work_folder in every if _last_written(work_folder) < before]
    for work_folder in old:
        shutil.rmtree(work_folder, ignore_errors=True)
    return len(old)


def _last_written(work_folder: Path) -> float:
    """Return when anything in it was written last; an agent that is at work writes its log."""
    return max(file.stat().st_mtime for file in (work_folder, *work_folder.iterdir()))
