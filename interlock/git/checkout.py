"""The working trees of a repository, both the user's and those of tasks."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from interlock.git.branch import mark_of, marks
from interlock.git.errors import Refusal, RefusedError
from interlock.git.program import Git
from interlock.git.refs import HEADS
from interlock.git.repository import Repository

_SHOWN = 3
_LOCK_NAME = "interlock"


@dataclass(frozen=True, slots=True)
class LinkedTree:
    """A working tree besides the main one. Git keeps its data about it in the folder `admin`.

    `locked` is the reason why git keeps it, if it is locked.
    """

    folder: Path
    admin: Path
    locked: str | None

    @property
    def is_gone(self) -> bool:
        """Tell whether its folder was deleted. A locked one may only be unmounted."""
        return self.locked is None and not self.folder.is_dir()


@dataclass(frozen=True, slots=True)
class Checkout:
    """A working tree and its branch, which is None if it is detached."""

    folder: Path
    branch: str | None


def linked_trees(repository: Repository) -> tuple[LinkedTree, ...]:
    """Return all working trees but the main one, read from git's own files."""
    found = []
    for pointer in sorted((repository.common / "worktrees").glob("*/gitdir")):
        # Git writes the path absolute, or relative to the folder that has the file.
        path = Path(os.path.normpath(pointer.parent / (_text(pointer) or "")))
        if path.name == ".git":
            folder = Path(os.path.realpath(path.parent))
            found.append(LinkedTree(folder, pointer.parent, _text(pointer.parent / "locked")))
    return tuple(found)


def checkouts(repository: Repository) -> tuple[Checkout, ...]:
    """Return all working trees; the main one comes first, if the repository has one."""
    common = repository.common
    listing = repository.git.run("worktree", "list", "--porcelain", "-z").output
    found = []
    for entry in listing.split(b"\0\0"):
        lines = (os.fsdecode(line).partition(" ") for line in entry.split(b"\0") if line)
        facts = {name: value for name, _, value in lines}
        if facts and "bare" not in facts:
            branch = facts["branch"].removeprefix(HEADS) if "branch" in facts else None
            folder = Path(os.path.realpath(facts["worktree"]))
            found.append(Checkout(_main_of(repository) if folder == common else folder, branch))
    return tuple(found)


def lock_of(admin: Path) -> Path:
    """Return the lock file that a call holds while it changes a task's worktree.

    A complete worktree has it, unless an earlier version made it or its maker was killed; nothing
    but a task's worktree has it.
    """
    return admin / _LOCK_NAME


def is_of_task(repository: Repository, tree: LinkedTree) -> bool:
    """Tell whether a worktree was made for a task. Without its lock file only its mark shows it."""
    if lock_of(tree.admin).exists():
        return True
    return tree.folder in {mark.folder for mark in marks(repository)}


def checkout_of(repository: Repository, branch: str) -> Checkout | None:
    """Return the working tree of the user where a branch is checked out, if any.

    The worktree of a task is none: an agent may have checked out what it likes there, and its files
    are not for git outside of a sandbox. Raises RefusedError if the branch cannot be moved: it is
    checked out twice, its folder does not exist at the moment, a rebase or bisect of it is under
    way, or it is the branch of a task that has its worktree.
    """
    linked = {tree.folder: tree for tree in linked_trees(repository)}
    ours = {folder for folder, tree in linked.items() if is_of_task(repository, tree)}
    not_here = ours | {folder for folder, tree in linked.items() if tree.is_gone}
    mark = mark_of(repository, branch) if ours else None
    if mark is not None and mark.folder in ours:
        problem = f"{branch!r} is the branch of the task in {mark.folder}"
        raise RefusedError(Refusal.CHECKOUT_BUSY, problem, "wait until its worktree is removed")
    present = [tree for tree in checkouts(repository) if tree.folder not in not_here]
    holders = [tree for tree in present if tree.branch == branch]
    problem = ""
    if len(holders) > 1:
        problem = f"{branch!r} is checked out in {holders[0].folder} and {holders[1].folder}"
    for tree in present:
        admin = linked[tree.folder].admin if tree.folder in linked else repository.common
        if tree.branch is None and branch in _under_way(admin):
            problem = f"a rebase or bisect of {branch!r} is under way in {tree.folder}"
    if holders and not holders[0].folder.is_dir():
        problem = f"{branch!r} is checked out in {holders[0].folder}, which is not there now"
    if holders and holders[0].folder == repository.common:
        problem = (
            f"{branch!r} is checked out where git, whose folder is elsewhere, does not find it"
        )
    if problem:
        raise RefusedError(Refusal.CHECKOUT_BUSY, problem, "end that, then the merge can go on")
    return holders[0] if holders else None


def refuse_changed(git: Git, paths: tuple[str, ...], *, remedy: str) -> None:
    """Refuse a working tree with uncommitted changes. Raises RefusedError."""
    if paths:
        problem = f"{git.folder} has uncommitted changes ({shown(paths)})"
        if any(os.path.lexists(git.folder / path / ".git") for path in paths):
            # A merge that moves a submodule leaves it as it is in the user's tree, as git's does.
            remedy = f"run git submodule update there, or {remedy}"
        raise RefusedError(Refusal.DIRTY, problem, remedy)


def shown(paths: tuple[str, ...]) -> str:
    """Return the first few paths as text for people."""
    first = ", ".join(map(repr, paths[:_SHOWN]))
    return first if len(paths) <= _SHOWN else f"{first} and {len(paths) - _SHOWN} more"


def _main_of(repository: Repository) -> Path:
    """Return the main working tree where git names its own folder instead.

    It does so if that folder is kept elsewhere (`git init --separate-git-dir`). It does not know
    the tree, unless it is asked there.
    """
    is_linked = repository.root in {tree.folder for tree in linked_trees(repository)}
    return repository.common if is_linked else repository.root


def _under_way(admin: Path) -> set[str]:
    """Return the branches that a rebase or bisect of a working tree is about."""
    files = ("rebase-merge/head-name", "rebase-apply/head-name", "BISECT_START")
    return {(_text(admin / file) or "").removeprefix(HEADS) for file in files}


def _text(file: Path) -> str | None:
    # Another git may remove a working tree at this moment, and the folder of the file with it.
    with suppress(FileNotFoundError):
        return file.read_text(errors="surrogateescape").strip()
    return None
