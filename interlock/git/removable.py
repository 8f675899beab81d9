"""What worktrees in some folders have in a repository, and how all of it is removed."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from interlock.git.agent_files import first_line
from interlock.git.branch import (
    KEPT,
    PREFIX,
    SAVED,
    delete_branch,
    mark_ref,
)
from interlock.git.refs import HEADS, Ref, read_refs, update_refs
from interlock.git.repository import COMMITTER, Repository
from interlock.git.saved_work import save_work
from interlock.git.worktree import Worktree, remove_worktree, worktrees

UNFINISHED = "What its agent had not committed when the deployment was removed"
REASON = "interlock: the deployment was removed"
# Refs of the user: what one of them leads to is not lost with the branches of agents.
_OF_USER = ("HEAD", f"--exclude={PREFIX}*", "--branches", "--tags", "--remotes")


@dataclass(frozen=True, slots=True)
class Removable:
    """The worktrees of a deployment in a repository, and the branches and other refs beside them.

    `unmerged` has those refs that lead to commits which no ref of the user leads to: how many.
    """

    repository: Repository
    trees: Sequence[Worktree]
    refs: Collection[str]
    unmerged: dict[str, int] = field(default_factory=dict)


def repositories_of(folder: Path) -> Iterator[Path]:
    """Yield the repository of each worktree in a folder, if the repository has that worktree.

    An agent may have changed to which repository its worktree leads; what is in a repository
    elsewhere, it has not.
    """
    place = folder.resolve()
    for path, inner, files in os.walk(place):
        if ".git" not in files:
            continue
        inner.clear()
        link = Path(path, ".git")
        its_files = Path(first_line(link).removeprefix("gitdir: "))
        common = its_files.parent.parent
        has_it = its_files.is_absolute() and first_line(its_files / "gitdir") == str(link)
        if has_it and common.name == ".git" and not common.resolve().is_relative_to(place):
            yield common.parent


def find_removable(
    repository: Repository, folders: Iterable[Path], backlogs: Collection[str]
) -> Removable:
    """Find the worktrees in these folders, and the work of these backlogs. Raises GitError."""
    places = [folder.resolve() for folder in folders]
    trees = [
        tree
        for tree in worktrees(repository)
        if any(tree.folder.is_relative_to(place) for place in places)
    ]
    names = {HEADS + tree.branch for tree in trees}
    found = read_refs(repository, *names, SAVED, KEPT)
    refs = {name: ref for name, ref in found.items() if name in names or _is_of(name, backlogs)}
    counts = {name: _commits_of_nobody_else(repository, ref) for name, ref in refs.items()}
    return Removable(
        repository, trees, [*refs], {name: count for name, count in counts.items() if count}
    )


def remove_trees(there: Removable) -> None:
    """Bring what is not committed to the branches, then remove the worktrees. Raises GitError."""
    for tree in there.trees:
        save_work(there.repository, tree, message=UNFINISHED, identity=COMMITTER)
        remove_worktree(there.repository, tree.folder, force=True)


def remove_refs(there: Removable, *, unmerged: bool) -> list[str]:
    """Delete the branches and other refs; return those that stay since they have unmerged work.

    `unmerged` deletes these as well. A branch that stays is an ordinary one from now on.
    """
    kept = [] if unmerged else sorted(there.unmerged)
    repository = there.repository
    for tree in there.trees:
        if HEADS + tree.branch in kept:
            mark = mark_ref(tree.branch)
            update_refs(repository, [("delete", mark, "")], reason=REASON)
        else:
            delete_branch(repository, tree.branch, target="", force=True)
    for name in there.refs:
        if not name.startswith(HEADS) and name not in kept and read_refs(repository, name):
            update_refs(repository, [("delete", name, "")], reason=REASON)
    return kept


def _is_of(name: str, backlogs: Collection[str]) -> bool:
    rest = name.removeprefix(SAVED).removeprefix(KEPT)
    return rest != name and rest.partition("/")[0] in backlogs


def _commits_of_nobody_else(repository: Repository, ref: Ref) -> int:
    command = ("rev-list", "--count", ref.sha, "--not", *_OF_USER)
    return int(repository.git.line(*command))
