"""Checks whether a repository is fit for a task, before anything is written."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from interlock.workers.gateways.git.branch import check_name, head, refuse_taken
from interlock.workers.gateways.git.checkout import changed_paths, refuse_changed
from interlock.workers.gateways.git.errors import Refusal, RefusedError
from interlock.workers.gateways.git.repository import Repository


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
    check_name(repository, branch)
    # Locked: a merge that is moving the user's tree must not be taken for changes of the user.
    with repository.locked() as held:
        chosen = target or _current(held)
        base = head(held, chosen)
        if base is None:
            problem = f"{held.root} has no branch {chosen!r} to merge into"
            raise RefusedError(Refusal.TARGET_MISSING, problem, "name an existing branch")
        remedy = "commit or stash them: the task would not see them"
        refuse_changed(held.git, changed_paths(held.git), remedy=remedy)
        refuse_taken(held, branch)
    return Admitted(chosen, base)


def _current(repository: Repository) -> str:
    ref = repository.git.run("symbolic-ref", "--quiet", "HEAD", allowed=(0, 1)).line()
    if not ref:
        problem = f"{repository.root} is on no branch (detached HEAD)"
        remedy = "name the branch to merge into (--target), or switch to one"
        raise RefusedError(Refusal.DETACHED, problem, remedy)
    branch = ref.removeprefix("refs/heads/")
    if head(repository, branch) is None:
        problem = f"{repository.root} has no commit on {branch!r} yet"
        raise RefusedError(Refusal.NO_COMMIT, problem, "commit something first")
    return branch
