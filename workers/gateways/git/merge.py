"""Merging a task's branch into its target, without a working tree; it resolves no conflict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from interlock.workers.gateways.git.advance import advance, put_back
from interlock.workers.gateways.git.branch import head, is_merged, move
from interlock.workers.gateways.git.checkout import checkout_of
from interlock.workers.gateways.git.errors import Refusal, RefusedError
from interlock.workers.gateways.git.repository import Identity, Repository, as_message


@dataclass(frozen=True, slots=True)
class Merged:
    """The target stands at this merge commit now."""

    commit: str


@dataclass(frozen=True, slots=True)
class AlreadyMerged:
    """The target, here at `commit`, held everything on the branch before."""

    commit: str


@dataclass(frozen=True, slots=True)
class Conflict:
    """Both sides changed these paths; nothing was merged."""

    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Moved:
    """Somebody moved the target meanwhile; nothing was merged. Merge again."""

    expected: str
    found: str | None


Outcome: TypeAlias = Merged | AlreadyMerged | Conflict | Moved


def merge(
    repository: Repository, *, branch: str, target: str, message: str, identity: Identity
) -> Outcome:
    """Merge a branch into the target with a commit of its own; a repeat finds it merged.

    Where the target is checked out, that tree moves along; it has to be clean. Only somebody who
    checks the target out within the few milliseconds between the last look and the move finds the
    merge undone in the files there: `git reset --hard` heals it. Raises GitError.
    """
    with repository.alone() as mine:
        put_back(mine, target)
        old, tip = _stand(mine, target, Refusal.TARGET_MISSING), _stand(mine, branch)
        if is_merged(mine, tip, old):
            return AlreadyMerged(old)
        joined = _joined(mine, old, tip)
        if isinstance(joined, Conflict):
            return joined
        new = _commit(mine, joined, (old, tip), message, identity)
        checkout = checkout_of(mine, target)
        if checkout is None:
            moved = move(mine, target, old=old, new=new, reason=f"interlock merge {branch}")
        else:
            moved = advance(mine, checkout, target=target, old=old, new=new)
        return Merged(new) if moved else Moved(old, head(mine, target))


def _stand(repository: Repository, branch: str, refusal: Refusal = Refusal.BRANCH_MISSING) -> str:
    found = head(repository, branch)
    if found is None:
        problem = f"{repository.root} has no branch {branch!r}"
        raise RefusedError(refusal, problem, "name one that is there")
    return found


def _joined(repository: Repository, old: str, tip: str) -> str | Conflict:
    """Return the tree of both together."""
    command = ("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", old, tip)
    finished = repository.git.run(*command, allowed=(0, 1))
    tree, *paths = finished.names()
    return Conflict(tuple(sorted(paths))) if finished.exit_code else tree


def _commit(
    repository: Repository,
    tree: str,
    parents: tuple[str, str],
    message: str,
    identity: Identity,
) -> str:
    git = repository.git.at(repository.git.folder, **identity.variables())
    both = [part for parent in parents for part in ("-p", parent)]
    return git.line("commit-tree", *both, "-F", "-", tree, given=as_message(message))
