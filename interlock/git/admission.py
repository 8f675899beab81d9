"""Checks whether a repository is fit for a task, before anything is written."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NoReturn

from interlock.git.branch import check_name, refs_around, refuse_taken
from interlock.git.checkout import refuse_changed
from interlock.git.errors import Refusal, RefusedError
from interlock.git.filters import refuse_unusable_filters
from interlock.git.refs import HEADS, read_refs
from interlock.git.repository import COMMITTER, Repository
from interlock.git.signing import refuse_unsignable
from interlock.git.status import tracked_status


@dataclass(frozen=True, slots=True)
class Admitted:
    """The branch to merge into, and the commit that the task starts from."""

    target: str
    base: str


def admit(
    repository: Repository, *, target: str | None, branch: str, paths: Iterable[str]
) -> Admitted:
    """Check a repository for a task; the default target is the branch that the user is on.

    Untracked files are allowed: nearly every tree has some, the task does not see them, and no
    merge overwrites them. Raises RefusedError.
    """
    for path in paths:
        repository.inside(path)
    check_name(branch)
    if (repository.common / "reftable").is_dir():
        problem = f"{repository.root} keeps its branches in a reftable, which Interlock cannot read"
        remedy = "convert them: git refs migrate --ref-format=files"
        raise RefusedError(Refusal.REF_FORMAT, problem, remedy)
    # Looked at first: git runs filters also to tell whether a file has changed.
    for name in ("HEAD", *((HEADS + target,) if target else ())):
        refuse_unusable_filters(repository, name)
    # Locked: a merge that is moving the user's tree must not be taken for changes of the user.
    with repository.locked() as held:
        status = tracked_status(held.git)
        chosen = target or status.branch
        if chosen is None:
            problem = f"{held.root} is on no branch (detached HEAD)"
            remedy = "name the branch to merge into (--target), or switch to one"
            raise RefusedError(Refusal.DETACHED, problem, remedy)
        refs = read_refs(held, HEADS + chosen, *refs_around(branch))
        base = refs.get(HEADS + chosen)
        if base is None:
            _refuse_missing(held, chosen, named=target is not None)
        remedy = "commit or stash them: the task would not see them"
        refuse_changed(held.git, status.changed, remedy=remedy)
        refuse_taken(held, refs, branch)
    refuse_unsignable(repository, base.sha, COMMITTER)
    return Admitted(chosen, base.sha)


def _refuse_missing(repository: Repository, target: str, *, named: bool) -> NoReturn:
    if named:
        problem = f"{repository.root} has no branch {target!r} to merge into"
        raise RefusedError(Refusal.TARGET_MISSING, problem, "name an existing branch")
    problem = f"{repository.root} has no commit on {target!r} yet"
    raise RefusedError(Refusal.NO_COMMIT, problem, "commit something first")
