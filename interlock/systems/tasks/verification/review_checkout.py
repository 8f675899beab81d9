"""Checks a commit out into a temporary worktree for its verification.

So exactly the commit is verified that will be merged. The worktree of the claim will not do: the
agent may still write there, and tests, hooks or an earlier verification may have left files.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from interlock import Settings
from interlock.git.branch import delete_branch
from interlock.git.errors import RefusedError
from interlock.git.repository import Repository
from interlock.git.worktree import Worktree, add_worktree, remove_worktree
from interlock.systems.tasks.claim_names import REVIEW_MARK, ClaimNames


@asynccontextmanager
async def review_checkout(
    repository: Repository, names: ClaimNames, commit: str, settings: Settings
) -> AsyncIterator[Path]:
    """Check a commit out into a folder of its own during the block. Raises GitError."""
    branch, worktree = names.review_branch(commit), names.worktree(settings)
    folder = worktree.with_name(f"{worktree.name}{REVIEW_MARK}{commit[:12]}")
    try:
        tree = await asyncio.to_thread(_add, repository, branch, folder, commit)
        yield tree.folder
    finally:
        await asyncio.to_thread(_remove, repository, branch, folder, commit)


def _add(repository: Repository, branch: str, folder: Path, commit: str) -> Worktree:
    add = partial(add_worktree, repository, branch=branch, folder=folder, base=commit, new=True)
    try:
        return add()
    except RefusedError:
        # A verification that was lost may have left its checkout.
        _remove(repository, branch, folder, commit)
        return add()


def _remove(repository: Repository, branch: str, folder: Path, commit: str) -> None:
    remove_worktree(repository, folder, force=True)
    delete_branch(repository, branch, target=commit, force=True)
