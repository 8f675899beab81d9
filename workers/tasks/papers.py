"""What keepers leave on this machine, orders and logs: kept for people, forgotten after a while."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from interlock.workers.config import Settings


def forget_old_papers(settings: Settings) -> int:
    """Remove the papers of agents that ended as long ago as records are kept; return how many."""
    before = time.time() - settings.prune_after_s
    every = (settings.home.absolute() / "keepers").glob("*/*")
    old = [papers for papers in every if _last_written(papers) < before]
    for papers in old:
        shutil.rmtree(papers, ignore_errors=True)
    return len(old)


def _last_written(papers: Path) -> float:
    """Return when anything in it was written last; an agent that is at work writes its log."""
    return max(file.stat().st_mtime for file in (papers, *papers.iterdir()))
