"""Merges a task's branch into its target without a working tree."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from interlock.git.advance import (
    MERGING,
    advance,
    put_back,
    refuse_in_the_way,
)
from interlock.git.branch import (
    Mark,
    contains,
    head,
    mark_ref,
    marks_among,
    move,
)
from interlock.git.checkout import checkout_of
from interlock.git.errors import Refusal, RefusedError
from interlock.git.refs import HEADS, Ref, read_refs
from interlock.git.repository import Identity, Repository, as_message
from interlock.git.signing import signing


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
class BranchMoved:
    """The branch is at this commit, which is not the one to merge; nothing was merged."""

    found: str


@dataclass(frozen=True, slots=True)
class TargetRewritten:
    """The target does not contain the commit any more at which the branch began.

    It was reset, amended or rebased, and a merge would bring back what was dropped: nothing was
    merged. Replay the branch onto the target, verify it, and merge again.
    """


@dataclass(frozen=True, slots=True)
class MergeUnverified:
    """The target would be at this commit, whose files are not verified; nothing was merged.

    No branch has the commit. Verify it, then merge again.
    """

    commit: str


MergeOutcome: TypeAlias = (
    BranchMerged
    | AlreadyMerged
    | MergeConflict
    | TargetMoved
    | BranchMoved
    | TargetRewritten
    | MergeUnverified
)


@dataclass(frozen=True, slots=True)
class Tips:
    """What a merge is about: the target, the branch, and the mark of a branch that has one."""

    target: Ref
    branch: Ref
    mark: Mark | None


def merge(
    repository: Repository,
    *,
    branch: str,
    target: str,
    message: str,
    identity: Identity,
    verified: Collection[str] | None,
    commit: str | None = None,
) -> MergeOutcome:
    """Merge a branch into the target with a merge commit; a repetition returns AlreadyMerged.

    If a `commit` is given, the branch has to be at it. `verified` are commits: the merge must have
    the files of one of them; None allows any files. If the target is checked out, its working tree
    is updated too; it has to be clean. If a person checks the target out in the milliseconds
    between the last check and the merge, the files stay as they were before it; `git reset --hard`
    repairs that. Raises GitError.
    """
    with repository.locked() as held:
        tips = read_tips(held, target, branch)
        old, tip = tips.target, tips.branch
        if refused := _why_not(held, tips, commit):
            return refused
        tree = merged_tree(held, old.sha, tip.sha)
        if isinstance(tree, MergeConflict):
            return tree
        # A merge of what the target contains already changes no file.
        if tree == old.tree and contains(held, old.sha, tip.sha):
            return AlreadyMerged(old.sha)
        new = commit_tree(held, tree, (old.sha, tip.sha), message, identity)
        checkout = checkout_of(held, target)
        if checkout is not None:
            # Checked before the files are verified: while a file of the user is in the way, every
            # try would verify them and then not merge.
            refuse_in_the_way(held, checkout, old=old.sha, new=new)
        if verified is not None and not _is_verified(held, tree, tip, verified):
            return MergeUnverified(new)
        if checkout is None:
            moved = move(held, target, old=old.sha, new=new, reason=f"interlock merge {branch}")
        else:
            moved = advance(held, checkout, target=target, old=old.sha, new=new)
        return BranchMerged(new) if moved else TargetMoved(old.sha, head(held, target))


def _why_not(repository: Repository, tips: Tips, commit: str | None) -> MergeOutcome | None:
    """Return why there is nothing to merge, or why it must not be merged; None to merge it."""
    if commit not in (None, tips.branch.sha):
        return BranchMoved(tips.branch.sha)
    if tips.target.sha == tips.branch.sha:
        return AlreadyMerged(tips.target.sha)
    return TargetRewritten() if is_rewritten(repository, tips) else None


def read_tips(repository: Repository, target: str, branch: str) -> Tips:
    """Return the refs of the target and the branch; first undo a merge that was cut off.

    Raises RefusedError if one of them is missing.
    """
    names = (MERGING + target, HEADS + target, HEADS + branch, mark_ref(branch))
    refs = read_refs(repository, *names)
    if MERGING + target in refs:
        put_back(repository, target)
        refs = read_refs(repository, *names)
    for name, refusal in ((target, Refusal.TARGET_MISSING), (branch, Refusal.BRANCH_MISSING)):
        if HEADS + name not in refs:
            problem = f"{repository.root} has no branch {name!r}"
            raise RefusedError(refusal, problem, "name an existing branch")
    return Tips(refs[HEADS + target], refs[HEADS + branch], marks_among(refs).get(branch))


def is_rewritten(repository: Repository, tips: Tips) -> bool:
    """Whether the target does not contain the commit any more at which the branch began."""
    return tips.mark is not None and not contains(repository, tips.target.sha, tips.mark.base)


def merged_tree(repository: Repository, old: str, new: str) -> str | MergeConflict:
    """Return the tree of the merge of two commits."""
    command = ("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages")
    finished = repository.git.run(*command, old, new, allowed=(0, 1))
    tree, *paths = finished.names()
    return MergeConflict(tuple(sorted(paths))) if finished.exit_code else tree


def commit_tree(
    repository: Repository, tree: str, parents: Sequence[str], message: str, identity: Identity
) -> str:
    """Make a commit, on no branch, and sign it if the user's settings want that."""
    every = [part for parent in parents for part in ("-p", parent)]
    with signing(repository, identity) as (git, options):
        make = ("commit-tree", *options, *every, "-F", "-", tree)
        return git.line(*make, stdin=as_message(message))


def _is_verified(repository: Repository, tree: str, tip: Ref, verified: Collection[str]) -> bool:
    """Tell whether one of the verified commits has these files. `tip` is looked at first."""
    if tip.sha in verified and tip.tree == tree:
        return True
    names = "".join(f"{commit}^{{tree}}\n" for commit in verified).encode()
    listing = repository.git.line("cat-file", "--batch-check=%(objectname)", stdin=names)
    return tree in listing.splitlines()
