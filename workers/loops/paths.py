"""Where a long-lived agent lives: its name, its branch, its worktree and its papers."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from interlock.kernel.machines.loops.loop.payloads import NAME
from interlock.kernel.record import record_id
from interlock.workers.config import Settings
from interlock.workers.gateways.git.branch import PREFIX, mark_of
from interlock.workers.gateways.git.errors import Refusal, RefusedError
from interlock.workers.gateways.git.repository import Identity, Repository
from interlock.workers.gateways.git.worktree import Worktree, add_worktree, rehome

FOLDER = "agents"
# Attempts whose prompt and output stay, of each life.
KEPT = 200


@dataclass(frozen=True, slots=True)
class Home:
    """One life of a named agent on this machine: `id` is <name>/<number of the life>."""

    id: str
    settings: Settings

    @property
    def name(self) -> str:
        """The name that mail is sent to."""
        return name_of(self.id)

    @property
    def branch(self) -> str:
        """The branch that all lives of this name work on."""
        return f"{PREFIX}{FOLDER}/{self.name}"

    @property
    def folder(self) -> Path:
        """Where its worktree is, unless it was made elsewhere and is there still."""
        return self.settings.home.absolute() / "worktrees" / FOLDER / self.name

    @property
    def work_folder(self) -> Path:
        """Where its sessions leave what they print."""
        return self.settings.home.absolute() / FOLDER / self.id

    def session(self, attempt: int) -> Path:
        """Return the folder of one attempt to run a session."""
        return self.work_folder / f"{attempt:06d}"

    def forget(self, attempt: int) -> None:
        """Remove the papers of the attempt that is so far behind this one that nobody looks."""
        if attempt > KEPT:
            shutil.rmtree(self.session(attempt - KEPT), ignore_errors=True)

    @property
    def identity(self) -> Identity:
        """Who commits what it leaves uncommitted."""
        return Identity(self.name, f"{self.name}@interlock.invalid")


def name_of(record: str) -> str:
    """Return the name of the agent whose record this is."""
    return record_id(record).partition("/")[0]


def is_name(name: str) -> bool:
    """Whether an agent can have this name."""
    return re.fullmatch(NAME, name) is not None


def ready(home: Home, repository: Repository, *, base: str) -> Worktree:
    """Make or find the agent's worktree. One that a machine took with it is made anew here.

    Raises GitError.
    """
    mark = mark_of(repository, home.branch)
    if mark is not None and mark.folder != home.folder and not mark.folder.is_dir():
        rehome(repository, home.branch, home.folder)
    # Where machines share their files, the worktree is where the first of them made it.
    there = mark is not None and mark.folder.is_dir()
    folder = mark.folder if mark is not None and there else home.folder
    try:
        return add_worktree(repository, branch=home.branch, folder=folder, base=base)
    except RefusedError as refusal:
        # Agents change branches: what they have in their worktree is theirs.
        if mark is None or refusal.refusal is not Refusal.WRONG_BRANCH:
            raise
        return Worktree(mark.branch, folder, mark.base, present=True)
