"""A fresh checkout of a commit for whoever judges it, and gone with its verdict.

What is judged is what is merged: not a folder in which an agent may still be at work, and in which
a test, a hook or an earlier judge has left something.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from interlock.workers.config import Settings
from interlock.workers.gateways.git.branch import delete_branch
from interlock.workers.gateways.git.repository import Repository
from interlock.workers.gateways.git.worktree import add_worktree, remove_worktree
from interlock.workers.tasks.claim_names import Workplace


@asynccontextmanager
async def checked_out(
    repository: Repository, place: Workplace, commit: str, settings: Settings
) -> AsyncIterator[Path]:
    """Check a commit out in a folder of its own as long as the block lasts. Raises GitError."""
    branch, own = place.court(commit), place.folder(settings)
    folder = own.with_name(f"{own.name}=={commit[:12]}")
    # An attempt that was lost in the middle may have left its own.
    await asyncio.to_thread(_remove, repository, branch, folder, commit)
    try:
        tree = await asyncio.to_thread(
            add_worktree, repository, branch=branch, folder=folder, base=commit
        )
        yield tree.folder
    finally:
        await asyncio.to_thread(_remove, repository, branch, folder, commit)


def _remove(repository: Repository, branch: str, folder: Path, commit: str) -> None:
    remove_worktree(repository, folder, force=True)
    delete_branch(repository, branch, target=commit, force=True)
