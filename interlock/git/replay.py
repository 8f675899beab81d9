"""Puts the work of a task on top of a target that was reset, amended or rebased meanwhile.

A merge of the branch would bring back the commits that were dropped from the target.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, replace

from interlock.git.branch import Mark, contains, head, mark_object, mark_ref
from interlock.git.errors import GitError, Refusal, RefusedError
from interlock.git.merge import (
    MergeConflict,
    Tips,
    commit_tree,
    is_rewritten,
    merged_tree,
    read_tips,
)
from interlock.git.private_copy import bring_in, git_in
from interlock.git.refs import HEADS, update_refs
from interlock.git.repository import Identity, Repository
from interlock.git.worktree import Worktree

_MESSAGES_MAX = 100


@dataclass(frozen=True, slots=True)
class WorkReplayed:
    """The branch was at `was`. It is at `commit` now, which has the work on top of `base`."""

    was: str
    commit: str
    base: str


def replay(
    repository: Repository, *, branch: str, target: str, identity: Identity
) -> WorkReplayed | MergeConflict | None:
    """Put the work of a branch on top of its target, if the target was rewritten since it began.

    The work is the difference between the commit at which the branch began and its last one. It
    becomes one commit with the messages of its commits, and the branch begins at the target from
    then on. A repetition changes nothing and returns None, as where nothing was rewritten. Raises
    RefusedError if the branch is checked out elsewhere than in its worktree.
    """
    with repository.locked() as held:
        tips = read_tips(held, target, branch)
        mark, old, tip = tips.mark, tips.target, tips.branch
        if mark is None or not is_rewritten(held, tips):
            return None
        if tip.checkout and not _is_at_home(tips, mark):
            problem = f"the branch {branch!r} is checked out in {tip.checkout}"
            remedy = "switch to another branch there: the work is put on top of its target"
            raise RefusedError(Refusal.CHECKOUT_BUSY, problem, remedy)
        # Two commits that have nothing but the beginning of the work in common, so that a merge of
        # them is that work on top of the target.
        sides = [
            commit_tree(held, ref.tree, (mark.base,), "A side of a replay", identity)
            for ref in (old, tip)
        ]
        tree = merged_tree(held, *sides)
        if isinstance(tree, MergeConflict):
            return tree
        new = old.sha
        if tree != old.tree:
            new = commit_tree(held, tree, (old.sha,), _messages(held, tips, mark), identity)
        commands = (
            ("update", HEADS + branch, new, tip.sha),
            ("update", mark_ref(branch), mark_object(held, replace(mark, base=old.sha)), ""),
        )
        update_refs(held, commands, reason="interlock: replayed onto the target")
        if tip.checkout:
            _update_worktree(held, mark, tip.sha, new)
        return WorkReplayed(tip.sha, new, old.sha)


def base_of_work(repository: Repository, *, base: str, target: str, commit: str) -> str:
    """Return the commit from which a merge takes the work of a branch that began at `base`.

    That is where the branch leaves the target: later than `base` if the branch contains later
    commits of the target. If the target was rewritten, it is `base`, because then the work is
    replayed.
    """
    tip = head(repository, target)
    if tip in (None, base) or not contains(repository, str(tip), base):
        return base
    return repository.git.line("merge-base", str(tip), commit)


def _is_at_home(tips: Tips, mark: Mark) -> bool:
    return os.path.realpath(tips.branch.checkout) == str(mark.folder)


def _messages(repository: Repository, tips: Tips, mark: Mark) -> str:
    limit = f"--max-count={_MESSAGES_MAX}"
    between = f"{mark.base}..{tips.branch.sha}"
    said = repository.git.line("log", "--reverse", "--format=%B", limit, between)
    return said.strip() or f"Work of {mark.branch}"


def _update_worktree(repository: Repository, mark: Mark, old: str, new: str) -> None:
    """Update the files of the worktree, which its branch has left.

    Git refuses that where a file was changed since the last commit: then all stay as they are.
    """
    worktree = Worktree(mark.branch, mark.folder, mark.base, present=True)
    with suppress(GitError):
        git_in(repository, worktree).run("read-tree", "-m", "-u", old, new)
        bring_in(repository, worktree)
