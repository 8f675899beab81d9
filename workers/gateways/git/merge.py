"""Merges a task's branch into its target without a working tree."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TypeAlias

from interlock.workers.gateways.git.advance import advance, put_back, refuse_in_the_way
from interlock.workers.gateways.git.branch import contains, head, move
from interlock.workers.gateways.git.checkout import checkout_of
from interlock.workers.gateways.git.errors import Refusal, RefusedError
from interlock.workers.gateways.git.repository import Identity, Repository, as_message


@dataclass(frozen=True, slots=True)
class BranchMerged:
    """The target is at this merge commit now."""

    commit: str


@dataclass(frozen=True, slots=True)
class AlreadyMerged:
    """The target, at `commit`, already contained everything on the branch."""

    commit: str


@dataclass(frozen=True, slots=True)
class MergeConflict:
    """Both sides changed these paths; nothing was merged."""

    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TargetMoved:
    """Somebody moved the target meanwhile; nothing was merged. Merge again."""

    expected: str
    found: str | None


@dataclass(frozen=True, slots=True)
class MergeUnverified:
    """The target would be at this commit, whose files are not verified; nothing was merged.

    No branch has the commit. Verify it, then merge again.
    """

    commit: str


MergeOutcome: TypeAlias = (
    BranchMerged | AlreadyMerged | MergeConflict | TargetMoved | MergeUnverified
)


def merge(
    repository: Repository,
    *,
    branch: str,
    target: str,
    message: str,
    identity: Identity,
    verified: Collection[str] | None,
) -> MergeOutcome:
    """Merge a branch into the target with a merge commit; a repetition returns AlreadyMerged.

    `verified` are commits: the merge must have the files of one of them; None allows any files.
    If the target is checked out, its working tree is updated too; it has to be clean. If a person
    checks the target out in the milliseconds between the last check and the merge, the files stay
    as they were before it; `git reset --hard` repairs that. Raises GitError.
    """
    with repository.locked() as held:
        put_back(held, target)
        old, tip = _tip(held, target, Refusal.TARGET_MISSING), _tip(held, branch)
        if contains(held, old, tip):
            return AlreadyMerged(old)
        tree = _merged_tree(held, old, tip)
        if isinstance(tree, MergeConflict):
            return tree
        new = _commit(held, tree, (old, tip), message, identity)
        checkout = checkout_of(held, target)
        if checkout is not None:
            # Checked before the files are verified: while a file of the user is in the way, every
            # try would verify them and then not merge.
            refuse_in_the_way(held, checkout, old=old, new=new)
        if verified is not None and tree not in {_tree_of(held, commit) for commit in verified}:
            return MergeUnverified(new)
        if checkout is None:
            moved = move(held, target, old=old, new=new, reason=f"interlock merge {branch}")
        else:
            moved = advance(held, checkout, target=target, old=old, new=new)
        return BranchMerged(new) if moved else TargetMoved(old, head(held, target))


def _tip(repository: Repository, branch: str, refusal: Refusal = Refusal.BRANCH_MISSING) -> str:
    found = head(repository, branch)
    if found is None:
        problem = f"{repository.root} has no branch {branch!r}"
        raise RefusedError(refusal, problem, "name an existing branch")
    return found


def _merged_tree(repository: Repository, old: str, tip: str) -> str | MergeConflict:
    """Return the tree of the merge."""
    command = ("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", old, tip)
    finished = repository.git.run(*command, allowed=(0, 1))
    tree, *paths = finished.names()
    return MergeConflict(tuple(sorted(paths))) if finished.exit_code else tree


def _tree_of(repository: Repository, commit: str) -> str:
    return repository.git.line("rev-parse", "--verify", f"{commit}^{{tree}}")


def _commit(
    repository: Repository,
    tree: str,
    parents: tuple[str, str],
    message: str,
    identity: Identity,
) -> str:
    git = repository.git.in_folder(repository.git.folder, **identity.variables())
    both = [part for parent in parents for part in ("-p", parent)]
    return git.line("commit-tree", *both, "-F", "-", tree, stdin=as_message(message))
