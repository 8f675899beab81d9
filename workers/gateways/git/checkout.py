"""The working trees of a repository, both the user's and those of tasks."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from interlock.workers.gateways.git.errors import GitError, Refusal, RefusedError
from interlock.workers.gateways.git.program import Git
from interlock.workers.gateways.git.repository import Repository

_SHOWN = 3
_HEADS = "refs/heads/"


@dataclass(frozen=True, slots=True)
class Checkout:
    """One working tree. `locked` is the reason why git keeps it; `branch` is None if detached."""

    folder: Path
    branch: str | None
    locked: str | None

    @property
    def is_gone(self) -> bool:
        """Tell whether its folder was deleted. A locked one may only be unmounted."""
        return self.locked is None and not self.folder.is_dir()


def checkouts(repository: Repository) -> tuple[Checkout, ...]:
    """Return all working trees; the main one comes first, if the repository has one."""
    listing = repository.git.run("worktree", "list", "--porcelain", "-z").output
    found = []
    for entry in listing.split(b"\0\0"):
        lines = (os.fsdecode(line).partition(" ") for line in entry.split(b"\0") if line)
        facts = {name: value for name, _, value in lines}
        if facts and "bare" not in facts:
            branch = facts["branch"].removeprefix(_HEADS) if "branch" in facts else None
            folder = Path(os.path.realpath(facts["worktree"]))
            found.append(Checkout(folder, branch, facts.get("locked")))
    return tuple(found)


def checkout_of(repository: Repository, branch: str) -> Checkout | None:
    """Return the working tree where a branch is checked out, if any.

    Raises RefusedError if the branch cannot be moved: it is checked out twice, its folder does not
    exist at the moment, or a rebase or bisect of it is under way.
    """
    present = [tree for tree in checkouts(repository) if not tree.is_gone]
    holders = [tree for tree in present if tree.branch == branch]
    problem = ""
    if len(holders) > 1:
        problem = f"{branch!r} is checked out in {holders[0].folder} and {holders[1].folder}"
    for tree in present:
        if tree.branch is None and branch in _under_way(repository, tree):
            problem = f"a rebase or bisect of {branch!r} is under way in {tree.folder}"
    if holders and not holders[0].folder.is_dir():
        problem = f"{branch!r} is checked out in {holders[0].folder}, which is not there now"
    if problem:
        raise RefusedError(Refusal.CHECKOUT_BUSY, problem, "end that, then the merge can go on")
    return holders[0] if holders else None


def changed_paths(git: Git) -> tuple[str, ...]:
    """Return the tracked files of a working tree that differ from its last commit.

    Untracked files do not count, because no function here overwrites them; nor does the content of
    submodules.
    """
    listing = git.run(
        *("status", "--porcelain", "-z", "--no-renames"),
        *("--untracked-files=no", "--ignore-submodules=dirty"),
    )
    return tuple(entry[3:] for entry in listing.names())


def refuse_changed(git: Git, paths: tuple[str, ...], *, remedy: str) -> None:
    """Refuse a working tree with uncommitted changes. Raises RefusedError."""
    if paths:
        problem = f"{git.folder} has uncommitted changes ({shown(paths)})"
        raise RefusedError(Refusal.DIRTY, problem, remedy)


def shown(paths: tuple[str, ...]) -> str:
    """Return the first few paths as text for people."""
    first = ", ".join(map(repr, paths[:_SHOWN]))
    return first if len(paths) <= _SHOWN else f"{first} and {len(paths) - _SHOWN} more"


def _under_way(repository: Repository, tree: Checkout) -> set[str]:
    with suppress(GitError):
        folder = Path(repository.git.in_folder(tree.folder).line("rev-parse", "--absolute-git-dir"))
        files = ("rebase-merge/head-name", "rebase-apply/head-name", "BISECT_START")
        return {_text(folder / file).removeprefix(_HEADS) for file in files}
    return set()


def _text(file: Path) -> str:
    try:
        return file.read_text(errors="surrogateescape").strip()
    except FileNotFoundError:
        return ""
