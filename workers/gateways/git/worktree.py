"""Worktrees of ours: a folder with a task's branch checked out; it never removes another's."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

from interlock.workers.gateways.git.branch import (
    Mark,
    check_name,
    commit_of,
    make,
    mark_of,
    marks,
    move_mark,
)
from interlock.workers.gateways.git.checkout import Checkout, checkouts, shown
from interlock.workers.gateways.git.errors import Refusal, RefusedError
from interlock.workers.gateways.git.program import Git
from interlock.workers.gateways.git.repository import Repository

_LOCK_NAME = "interlock"
_REMOVING = "interlock-removing"
# Why git itself keeps a worktree until its files are complete.
_HALF_MADE = "initializing"


@dataclass(frozen=True, slots=True)
class Worktree:
    """A worktree of ours; `base` is the commit its branch began at. Not `present`: removed."""

    branch: str
    folder: Path
    base: str
    present: bool


def worktrees(repository: Repository) -> tuple[Worktree, ...]:
    """Return all worktrees that were made for a task and whose branch is not deleted yet."""
    there = {tree.folder for tree in checkouts(repository) if not tree.is_gone}
    return tuple(
        Worktree(mark.branch, mark.folder, mark.base, mark.folder in there)
        for mark in marks(repository)
    )


def add_worktree(repository: Repository, *, branch: str, folder: Path, base: str) -> Worktree:
    """Make a branch at a base (a branch or a commit id) and check it out in a folder.

    Repeated with the same branch and folder it finds or completes its own, with the base of the
    first time. Raises RefusedError if either is another's.
    """
    check_name(repository, branch)
    folder = _real(folder)
    with repository.alone() as mine:
        mark = mark_of(mine, branch)
        if mark is None:
            _refuse_unfit(mine, folder)
            mark = Mark(branch, folder, commit_of(mine, base))
        elif mark.folder != folder:
            problem = f"the branch {branch!r} belongs to the worktree {mark.folder}"
            raise RefusedError(Refusal.BRANCH_EXISTS, problem, "choose another name")
        make(mine, mark)
        _check_out(mine, mark)
        return Worktree(mark.branch, mark.folder, mark.base, present=True)


def rehome(repository: Repository, branch: str, folder: Path) -> None:
    """Let the worktree of a branch of ours be elsewhere, where its folder is gone.

    Raises RefusedError if the branch is not ours, or its folder is still there.
    """
    folder = _real(folder)
    with repository.alone() as mine:
        mark = mark_of(mine, branch)
        if mark is None:
            problem = f"{branch!r} is no branch that was made for a task"
            raise RefusedError(Refusal.BRANCH_MISSING, problem, "add a worktree for it first")
        if mark.folder.is_dir():
            problem = f"the worktree of {branch!r} is still at {mark.folder}"
            raise RefusedError(Refusal.FOLDER_TAKEN, problem, "use it there")
        if _checkout_at(mine, mark.folder) is not None:
            _unregister(mine, mark.folder)
        _refuse_unfit(mine, folder)
        move_mark(mine, Mark(branch, folder, mark.base))


def remove_worktree(repository: Repository, folder: Path, *, force: bool) -> bool:
    """Remove a worktree of ours; its branch stays. Returns whether it was there.

    One with uncommitted or untracked files goes by force only. Raises RefusedError for that, and
    for a folder that is not ours.
    """
    folder = _real(folder)
    with repository.alone() as mine:
        tree = _checkout_at(mine, folder)
        if tree is None and not os.path.lexists(folder):
            return False
        if tree is None or folder not in {mark.folder for mark in marks(mine)}:
            problem = f"{folder} is no worktree that was made for a task"
            raise RefusedError(Refusal.FOLDER_FOREIGN, problem, "only its owner may remove it")
        there = folder.is_dir()
        if there:
            # Git puts files into a half-made one; nobody else has been told of it.
            _allow_removal(mine, folder, force=force or tree.locked == _HALF_MADE)
        _unregister(mine, folder)
        return there


def git_in(repository: Repository, worktree: Worktree) -> Git:
    """Return the program in a worktree of ours, whatever the files in it say about git.

    Raises RefusedError if it is gone.
    """
    return _git_at(repository, worktree.folder, admin_of(repository, worktree.folder))


def admin_of(repository: Repository, folder: Path) -> Path:
    """Return the folder where git keeps what it knows about a worktree. Raises RefusedError."""
    for pointer in sorted((repository.common / "worktrees").glob("*/gitdir")):
        # git writes it relative to its place, or absolute.
        with suppress(FileNotFoundError):  # another worktree is being removed at this moment
            place = Path(os.path.normpath(pointer.parent / pointer.read_text().strip()))
            if place.name == ".git" and _real(place.parent) == folder:
                return pointer.parent
    problem = f"git knows no worktree at {folder}"
    raise RefusedError(Refusal.FOLDER_MISSING, problem, "add it again")


def lock_of(admin: Path) -> Path:
    """Return the file that a call holds while it changes a worktree of ours."""
    return admin / _LOCK_NAME


def _check_out(repository: Repository, mark: Mark) -> None:
    tree = _checkout_at(repository, mark.folder)
    if tree is not None and _is_incomplete(repository, tree):
        _unregister(repository, mark.folder)
        tree = None
    if tree is None:
        _refuse_filled(mark.folder)
        command = ("worktree", "add", "--quiet", "--", str(mark.folder), mark.branch)
        repository.git.run(*command)
    elif tree.branch != mark.branch:
        stands = f"on {tree.branch!r}" if tree.branch else "on no branch"
        problem = f"the worktree {mark.folder} is {stands}, not on {mark.branch!r}"
        raise RefusedError(Refusal.WRONG_BRANCH, problem, "remove it by force and add it again")


def _is_incomplete(repository: Repository, tree: Checkout) -> bool:
    if tree.is_gone or tree.locked == _HALF_MADE:
        return True
    return (admin_of(repository, tree.folder) / _REMOVING).exists()


def _refuse_unfit(repository: Repository, folder: Path) -> None:
    around = [repository.common, *(tree.folder for tree in checkouts(repository))]
    # Inside another working tree, that one would show ours as untracked files.
    if any(folder.is_relative_to(other) for other in around):
        problem = f"{folder} is inside the repository or one of its worktrees"
        raise RefusedError(Refusal.FOLDER_TAKEN, problem, "choose a folder elsewhere")
    if folder in {mark.folder for mark in marks(repository)}:
        problem = f"{folder} belongs to another task"
        raise RefusedError(Refusal.FOLDER_TAKEN, problem, "choose another folder")
    _refuse_filled(folder)


def _refuse_filled(folder: Path) -> None:
    if folder.is_symlink() or (folder.exists() and not _is_empty(folder)):
        problem = f"{folder} is there already and is not an empty folder"
        raise RefusedError(Refusal.FOLDER_TAKEN, problem, "choose another folder")


def _is_empty(folder: Path) -> bool:
    return folder.is_dir() and not any(folder.iterdir())


def _allow_removal(repository: Repository, folder: Path, *, force: bool) -> None:
    begun = admin_of(repository, folder) / _REMOVING
    # A removal that was cut off has been allowed before, and has deleted files since.
    if not force and not begun.exists():
        git = _git_at(repository, folder, begun.parent)
        command = ("status", "--porcelain", "-z", "--no-renames", "--untracked-files=all")
        listing = git.run(*command, "--ignore-submodules=none").names()
        if listing:
            paths = tuple(entry[3:] for entry in listing)
            problem = f"the worktree {folder} has files that are not committed ({shown(paths)})"
            raise RefusedError(Refusal.DIRTY, problem, "commit them, or remove it by force")
    begun.touch()


def _unregister(repository: Repository, folder: Path) -> None:
    remove = ("worktree", "remove", "--force", "--force", "--", str(folder))
    if not folder.is_dir():
        repository.git.run(*remove)
        return
    admin = admin_of(repository, folder)
    with repository.git.alone(lock_of(admin)) as git:
        _make_deletable(folder)
        _point_to(admin, folder)
        git.run(*remove)


def _make_deletable(folder: Path) -> None:
    """Give back the rights that some tools take from their folders; git stops at the first."""
    folder.chmod(folder.stat().st_mode | 0o700)
    for inside, names, _ in os.walk(folder):
        for name in names:
            place = Path(inside, name)
            # What belongs to another user stays as it is, and git says so.
            with suppress(PermissionError):
                if not place.is_symlink():
                    place.chmod(place.stat().st_mode | 0o700)


def _point_to(admin: Path, folder: Path) -> None:
    """Complete what git checks before it removes a worktree; a killed git left some of it out.

    A repository that an agent made in its place is only moved aside, to go with the folder.
    """
    pointer = folder / ".git"
    if pointer.is_dir() and not pointer.is_symlink():
        pointer.rename(mkdtemp(dir=folder))
    pointer.unlink(missing_ok=True)
    pointer.write_text(f"gitdir: {admin}\n")
    for name, least in (("HEAD", "ref: refs/heads/none\n"), ("commondir", "../..\n")):
        if not (admin / name).exists():
            (admin / name).write_text(least)


def _git_at(repository: Repository, folder: Path, admin: Path) -> Git:
    return repository.git.at(folder, GIT_DIR=str(admin), GIT_WORK_TREE=str(folder))


def _checkout_at(repository: Repository, folder: Path) -> Checkout | None:
    return next((tree for tree in checkouts(repository) if tree.folder == folder), None)


def _real(folder: Path) -> Path:
    if not folder.is_absolute():
        problem = f"{str(folder)!r} is not an absolute path"
        raise RefusedError(Refusal.FOLDER_FOREIGN, problem, "give the whole path")
    # Not through the last part: a link in a worktree's place is not the worktree.
    return Path(os.path.realpath(folder.parent)) / folder.name
