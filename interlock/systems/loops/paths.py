"""The name, branch, worktree and work folders of a long-lived agent on this computer."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from interlock import Settings
from interlock.git.branch import PREFIX, mark_of
from interlock.git.errors import Refusal, RefusedError
from interlock.git.repository import Identity, Repository
from interlock.git.saved_work import commit_work
from interlock.git.worktree import Worktree, add_worktree, rehome, worktrees
from interlock.system.tables import root_of
from interlock.systems.loops.machines.loop.payloads import NAME

FOLDER = "agents"
# The prompts and output of this many attempts are kept for each life.
ATTEMPTS_KEPT = 200
SAVED = "What was checked out in a worktree that somebody has deleted"


@dataclass(frozen=True, slots=True)
class AgentPaths:
    """The paths of one life of an agent. `id` is the record's: <name>/<number of the life>."""

    id: str
    settings: Settings

    @property
    def name(self) -> str:
        """The name that mail is addressed to."""
        return name_of(self.id)

    @property
    def branch(self) -> str:
        """The branch that all lives of this name work on."""
        return f"{PREFIX}{FOLDER}/{self.name}"

    @property
    def folder(self) -> Path:
        """The folder in which this computer creates the worktree, if there is none yet."""
        return self.settings.worktree_folder / FOLDER / self.name

    @property
    def work_folder(self) -> Path:
        """The folder that holds the prompts and the output of this life's sessions."""
        return self.settings.home.absolute() / FOLDER / self.id

    def session(self, attempt: int) -> Path:
        """Return the work folder of one attempt to run a session."""
        return self.settings.home.absolute() / session_below_home(self.id, attempt)

    def delete_old_attempt(self, attempt: int) -> None:
        """Delete the work folder of the attempt that lies ATTEMPTS_KEPT before this one."""
        if attempt > ATTEMPTS_KEPT:
            shutil.rmtree(self.session(attempt - ATTEMPTS_KEPT), ignore_errors=True)

    @property
    def identity(self) -> Identity:
        """The author of the commit that saves what the agent left uncommitted."""
        return Identity(self.name, f"{self.name}@interlock.invalid")


def session_below_home(life_id: str, attempt: int) -> Path:
    """Return the work folder of an attempt, relative to the home of the agent's computer."""
    return Path(FOLDER) / life_id / f"{attempt:06d}"


def name_of(life_id: str) -> str:
    """Return the agent's name from the id of one of its lives."""
    name = root_of(life_id)
    assert is_name(name), "the id of a life begins with a name that its agent may have"
    return name


def is_name(name: str) -> bool:
    """Return whether an agent can have this name."""
    return re.fullmatch(NAME, name) is not None


def prepare_worktree(paths: AgentPaths, repository: Repository, *, base: str) -> Worktree:
    """Return the agent's worktree. Create it here if its folder does not exist.

    Its branch begins at `base`, which is the checked-out commit if it is empty. Raises GitError.
    """
    add = partial(add_worktree, repository, branch=paths.branch, base=base or None)
    for tree in worktrees(repository):
        if tree.branch == paths.branch and not tree.folder.is_dir():
            # Its files are gone; the commits that it had checked out would go with it.
            commit_work(repository, tree, message=SAVED, identity=paths.identity)
    try:
        return add(folder=paths.folder)
    except RefusedError:
        # The branch may have a worktree already, elsewhere or with another branch checked out.
        mark = mark_of(repository, paths.branch)
        if mark is None:
            raise
    if not mark.folder.is_dir():
        if mark.folder != paths.folder:
            rehome(repository, paths.branch, paths.folder)
        return add(folder=paths.folder)
    try:
        # Computers that share their files use the worktree where the first of them created it.
        return add(folder=mark.folder)
    except RefusedError as refusal:
        # An agent may check out another branch in its worktree. Its files stay as they are.
        if refusal.refusal is not Refusal.WRONG_BRANCH:
            raise
        return Worktree(mark.branch, mark.folder, mark.base, present=True)
