"""Branches: their commits, what is merged, and which were made for tasks.

A branch was made for a task if it has a mark: `refs/interlock/worktrees/<rest of its name>` names
its folder and base. The mark is made before the branch and deleted after it, so that no crash
leaves a task's branch without a mark.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from interlock.workers.gateways.git.checkout import checkouts
from interlock.workers.gateways.git.errors import Refusal, RefusedError
from interlock.workers.gateways.git.repository import Repository

PREFIX = "interlock/"
_MARKS = "refs/interlock/worktrees/"
_MISSING = 128


@dataclass(frozen=True, slots=True)
class Mark:
    """The mark of a task's branch: where its worktree is, and the commit it began at."""

    branch: str
    folder: Path
    base: str


def head(repository: Repository, branch: str) -> str | None:
    """Return the commit of a branch; None if there is no such branch."""
    return resolve(repository, _ref(branch))


def resolve(repository: Repository, ref: str) -> str | None:
    """Return the object of a whole ref name; None if there is no such ref."""
    command = ("show-ref", "--verify", "--hash", "--", ref)
    finished = repository.git.run(*command, allowed=(0, _MISSING))
    if finished.exit_code == 0:
        return finished.line()
    if "not a valid ref" not in finished.stderr:
        raise repository.git.failure("show-ref", finished)
    return None


def commit_of(repository: Repository, name: str) -> str:
    """Return the commit of a branch, or of a whole commit id. Raises RefusedError."""
    # Nothing else: a tag or another expression with the same name must not be taken instead.
    if re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", name):
        kind = repository.git.run("cat-file", "-t", name, allowed=(0, _MISSING)).line()
        if kind == "commit":
            return name
    found = head(repository, name)
    if found is None:
        problem = f"{repository.root} has neither a branch nor a commit {name!r}"
        raise RefusedError(Refusal.BRANCH_MISSING, problem, "name an existing one")
    return found


def contains(repository: Repository, commit: str, other: str) -> bool:
    """Tell whether a commit is another one or comes after it."""
    finished = repository.git.run("merge-base", "--is-ancestor", other, commit, allowed=(0, 1))
    return finished.exit_code == 0


def move(repository: Repository, branch: str, *, old: str, new: str, reason: str) -> bool:
    """Set a branch to a commit if it is still at the old one; return whether it was."""
    command = ("update-ref", "-m", reason, _ref(branch), new, old)
    finished = repository.git.run(*command, allowed=(0, 1, _MISSING))
    if finished.exit_code and head(repository, branch) == old:
        raise repository.git.failure("update-ref", finished)
    return finished.exit_code == 0


def check_name(repository: Repository, branch: str) -> None:
    """Refuse a name that no task's branch can have. Raises RefusedError."""
    legal = repository.git.run("check-ref-format", _ref(branch), allowed=(0, 1)).exit_code == 0
    if not legal or not branch.startswith(PREFIX):
        problem = f"{branch!r} cannot be the name of a task's branch"
        remedy = f"it begins with {PREFIX} and has no space, colon, '..' or wildcard"
        raise RefusedError(Refusal.BRANCH_NAME, problem, remedy)


def refuse_taken(repository: Repository, branch: str) -> None:
    """Refuse a branch that already exists. Raises RefusedError."""
    if head(repository, branch) is not None:
        problem = f"{repository.root} has a branch {branch!r} already"
        raise RefusedError(Refusal.BRANCH_EXISTS, problem, "choose another name, or delete it")


def marks(repository: Repository) -> tuple[Mark, ...]:
    """Return the marks of all tasks' branches, by name."""
    listing = repository.git.run("for-each-ref", "--format=%(refname)%00%(raw)%00", _MARKS)
    fields = [field.removeprefix(b"\n") for field in listing.output.split(b"\0")]
    found = []
    for name, content in zip(fields[0:-1:2], fields[1::2], strict=True):
        mark = json.loads(content)
        branch = PREFIX + name.decode().removeprefix(_MARKS)
        found.append(Mark(branch, Path(mark["folder"]), mark["base"]))
    return tuple(found)


def mark_of(repository: Repository, branch: str) -> Mark | None:
    """Return the mark of a branch; None if it was not made for a task."""
    return next((mark for mark in marks(repository) if mark.branch == branch), None)


def make(repository: Repository, mark: Mark, *, marked: bool) -> None:
    """Make a task's branch at its base. `marked` tells whether it has its mark already."""
    if not marked:
        refuse_taken(repository, mark.branch)
        repository.git.run("update-ref", _mark_ref(mark.branch), _mark_object(repository, mark), "")
    elif head(repository, mark.branch) is not None:
        return
    reason = "interlock: made for a task"
    repository.git.run("update-ref", "-m", reason, _ref(mark.branch), mark.base, "")


def replace_mark(repository: Repository, mark: Mark) -> None:
    """Replace the mark of a task's branch."""
    repository.git.run("update-ref", _mark_ref(mark.branch), _mark_object(repository, mark))


def delete_branch(repository: Repository, branch: str, *, target: str, force: bool) -> bool:
    """Delete a task's branch that is merged into the target, or, with `force`, any task's branch.

    Returns whether it was there. Raises RefusedError for a branch that was not made for a task, is
    checked out, or is not merged.
    """
    with repository.locked() as held:
        tip, mark = head(held, branch), mark_of(held, branch)
        if tip is not None:
            _check_deletable(held, branch, mark)
            if not force and not contains(held, commit_of(held, target), tip):
                problem = f"the branch {branch!r} is not merged into {target!r}"
                raise RefusedError(Refusal.NOT_MERGED, problem, "merge it, or delete it by force")
            held.git.run("update-ref", "-d", _ref(branch), tip)
        if mark is not None:
            held.git.run("update-ref", "-d", _mark_ref(branch))
        return tip is not None


def _check_deletable(repository: Repository, branch: str, mark: Mark | None) -> None:
    if mark is None:
        problem = f"the branch {branch!r} was not made for a task"
        remedy = "only its owner may delete it"
        raise RefusedError(Refusal.BRANCH_EXISTS, problem, remedy)
    for checkout in checkouts(repository):
        if checkout.branch == branch:
            problem = f"the branch {branch!r} is checked out in {checkout.folder}"
            raise RefusedError(Refusal.CHECKOUT_BUSY, problem, "remove that worktree first")


def _mark_object(repository: Repository, mark: Mark) -> str:
    content = json.dumps({"folder": str(mark.folder), "base": mark.base}).encode()
    return repository.git.line("hash-object", "-w", "--stdin", stdin=content)


def _ref(branch: str) -> str:
    return f"refs/heads/{branch}"


def _mark_ref(branch: str) -> str:
    return _MARKS + branch.removeprefix(PREFIX)
