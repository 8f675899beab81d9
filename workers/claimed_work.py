"""The work of one claim of a task, as its judges find it on this machine; it gives no verdict."""

from __future__ import annotations

import os
from pathlib import Path

from kernel.record import Record
from workers.completion_signal import Signal, Verdict
from workers.config import PREFIX, Settings
from workers.gateways.git.repository import Identity, Repository
from workers.gateways.git.worktree import Worktree, worktrees
from workers.gateways.signals import check
from workers.workplace import workplace_of

IDENTITY = Identity("Interlock", "interlock@localhost")


def repository_of(record: Record) -> Repository:
    """Open a task's repository. Raises GitError."""
    return Repository.open(Path(str(record.data["repo"])))


def worktree_of(repository: Repository, record: Record, settings: Settings) -> Worktree | None:
    """Return the worktree of a task's present claim, or None where it is gone."""
    branch = workplace_of(record).branch
    folder = workplace_of(record).folder(settings)
    for tree in worktrees(repository):
        if tree.branch == branch and tree.folder == folder.resolve() and tree.present:
            return tree
    return None


def outside(paths: tuple[str, ...], owned: list[str]) -> tuple[str, ...]:
    """Return what was changed beyond the files that a task owns; without any, all are its own."""
    if not owned:
        return ()
    return tuple(
        path
        for path in paths
        if not any(path == one or path.startswith(f"{one}/") for one in owned)
    )


async def judged(record: Record, folder: Path) -> Verdict:
    """Ask every completion signal of a task about a folder; tests see no setting of ours."""
    signals = [Signal(one["type"], one["value"]) for one in record.data["signals"]]
    clean = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    return await check(signals, folder=folder, reviewer=None, judge=None, environment=clean)
