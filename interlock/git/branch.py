"""Branches: their commits, what is merged, and which were made for tasks.

A branch was made for a task if it has a mark: `refs/interlock/worktrees/<rest of its name>` names
its folder and base. The mark is made together with the branch and deleted after it, so that no
crash leaves a task's branch without a mark.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from interlock.git.errors import FailedError, Refusal, RefusedError
from interlock.git.program import ANY_CODE
from interlock.git.refs import (
    HEADS,
    Ref,
    exactly,
    is_branch_name,
    read_refs,
    update_refs,
)
from interlock.git.repository import COMMITTER, Repository, as_message

PREFIX = "interlock/"
MARKS = "refs/interlock/worktrees/"
# Below it is the work of branches that were put away, by the rest of the branch's name.
SAVED = "refs/interlock/saved/"
# Below it are the other branches, the tags and the stash of the agents of a task's branch.
KEPT = "refs/interlock/branches/"
_COMMIT_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_MISSING = 128


@dataclass(frozen=True, slots=True)
class Mark:
    """The mark of a task's branch: where its worktree is, and the commit it began at."""

    branch: str
    folder: Path
    base: str


def head(repository: Repository, branch: str) -> str | None:
    """Return the commit of a branch; None if there is no such branch."""
    found = read_refs(repository, HEADS + branch).get(HEADS + branch)
    return found.sha if found else None


def commit_of(repository: Repository, name: str) -> str:
    """Return the commit of a branch, or of a whole commit id. Raises RefusedError."""
    # Nothing else: a tag or another expression with the same name must not be taken instead.
    if _COMMIT_ID.fullmatch(name):
        kind = repository.git.run("cat-file", "-t", name, allowed=(0, _MISSING)).line()
        if kind == "commit":
            return name
    found = head(repository, name)
    if found is None:
        problem = f"{repository.root} has neither a branch nor a commit {name!r}"
        raise RefusedError(Refusal.BRANCH_MISSING, problem, "name an existing one")
    return found


def head_commit(repository: Repository) -> str:
    """Return the commit that a repository has checked out. Raises RefusedError if it has none."""
    command = ("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    found = repository.git.run(*command, allowed=(0, 1))
    if found.exit_code:
        problem = f"{repository.root} has no commit yet"
        raise RefusedError(Refusal.NO_COMMIT, problem, "commit something first")
    return found.line()


@contextmanager
def using_commit_of(repository: Repository, *names: str) -> Iterator[tuple[str, ...]]:
    """Yield the commits of branches and of whole commit ids for one use of git.

    Raises RefusedError for a name that is neither. To save a process, an id is looked up only if
    git fails in the block.
    """
    commits = tuple(
        name if _COMMIT_ID.fullmatch(name) else commit_of(repository, name) for name in names
    )
    try:
        yield commits
    except FailedError:
        for name in names:
            commit_of(repository, name)
        raise


def contains(repository: Repository, commit: str, other: str) -> bool:
    """Whether `commit` is `other`, or has it among its ancestors."""
    if commit == other:
        return True
    finished = repository.git.run("merge-base", "--is-ancestor", other, commit, allowed=(0, 1))
    return finished.exit_code == 0


def move(repository: Repository, branch: str, *, old: str, new: str, reason: str) -> bool:
    """Set a branch to a commit if it is still at the old one; return whether it was."""
    command = ("update-ref", "-m", reason, HEADS + branch, new, old)
    finished = repository.git.run(*command, allowed=(0, 1, _MISSING))
    if finished.exit_code and head(repository, branch) == old:
        raise repository.git.failure("update-ref", finished)
    return finished.exit_code == 0


def check_name(branch: str) -> None:
    """Refuse a name that no task's branch can have. Raises RefusedError."""
    if not is_branch_name(branch) or not branch.startswith(PREFIX):
        problem = f"{branch!r} cannot be the name of a task's branch"
        remedy = f"it begins with {PREFIX} and has no space, colon, '..' or wildcard"
        raise RefusedError(Refusal.BRANCH_NAME, problem, remedy)


def refs_around(branch: str) -> tuple[str, ...]:
    """Return what `read_refs` has to read so that `refuse_taken` can judge a new branch."""
    return (HEADS + branch, *(exactly(HEADS + folder) for folder in _folders(branch)))


def refuse_taken(repository: Repository, refs: Iterable[str], branch: str) -> None:
    """Refuse a branch that git cannot make beside these refs. Raises RefusedError.

    Git keeps a branch as a file, so no branch can have the name of a folder of another one.
    """
    names = {ref.removeprefix(HEADS) for ref in refs if ref.startswith(HEADS)}
    if branch in names:
        problem = f"{repository.root} has a branch {branch!r} already"
        raise RefusedError(Refusal.BRANCH_EXISTS, problem, "choose another name, or delete it")
    below = (name for name in sorted(names) if name.startswith(f"{branch}/"))
    beside = next((name for name in (*_folders(branch), *below) if name in names), None)
    if beside:
        problem = f"{repository.root} has a branch {beside!r}, beside which git can make no branch"
        remedy = f"rename it with: git branch -m {beside} NEW-NAME"
        raise RefusedError(Refusal.BRANCH_EXISTS, f"{problem} {branch!r}", remedy)


def _folders(branch: str) -> tuple[str, ...]:
    """Return the folders that a branch is in: of a/b/c these are a and a/b."""
    parts = branch.split("/")
    return tuple("/".join(parts[:number]) for number in range(1, len(parts)))


def marks(repository: Repository) -> tuple[Mark, ...]:
    """Return the marks of all tasks' branches, by name."""
    return tuple(marks_among(read_refs(repository, MARKS)).values())


def mark_of(repository: Repository, branch: str) -> Mark | None:
    """Return the mark of a branch; None if it was not made for a task."""
    return marks_among(read_refs(repository, mark_ref(branch))).get(branch)


def mark_ref(branch: str) -> str:
    """Return the ref that is the mark of a task's branch."""
    return MARKS + branch.removeprefix(PREFIX)


def marks_among(refs: Mapping[str, Ref]) -> dict[str, Mark]:
    """Return the marks among refs, by the names of their branches."""
    found = {}
    for name, ref in refs.items():
        if name.startswith(MARKS):
            mark = json.loads(ref.content)
            branch = PREFIX + name.removeprefix(MARKS)
            found[branch] = Mark(branch, Path(mark["folder"]), mark["base"])
    return found


def make(repository: Repository, mark: Mark, *, marked: bool) -> None:
    """Make a task's branch at its base. `marked` tells whether it has its mark already.

    Raises GitError, with nothing made, if the branch exists or the base is no commit.
    """
    # Git writes the refs of a transaction in this order, so a crash leaves the mark alone at most.
    commands = [("create", HEADS + mark.branch, mark.base)]
    if not marked:
        commands.insert(0, ("create", mark_ref(mark.branch), mark_object(repository, mark)))
    update_refs(repository, commands, reason="interlock: made for a task")


def replace_mark(repository: Repository, mark: Mark) -> None:
    """Replace the mark of a task's branch."""
    repository.git.run("update-ref", mark_ref(mark.branch), mark_object(repository, mark))


def mark_object(repository: Repository, mark: Mark) -> str:
    """Write what the ref of a mark names, and return its object id."""
    content = json.dumps({"folder": str(mark.folder), "base": mark.base}).encode()
    return repository.git.line("hash-object", "-w", "--stdin", stdin=content)


def delete_branch(repository: Repository, branch: str, *, target: str, force: bool) -> bool:
    """Delete a task's branch that is merged into the target, or, with `force`, any task's branch.

    Returns whether it was there. Raises RefusedError for a branch that was not made for a task, is
    checked out, or is not merged.
    """
    with repository.locked() as held:
        names = (mark_ref(branch), HEADS + branch, HEADS + target, kept_of(branch))
        refs = read_refs(held, *names)
        found = refs.get(HEADS + branch)
        if found is not None:
            _refuse_kept(found, branch, marks_among(refs).get(branch))
            if not force and not _is_merged(held, found, refs, branch, target):
                problem = f"the branch {branch!r} is not merged into {target!r}"
                remedy = "merge it, or delete it by force"
                raise RefusedError(Refusal.NOT_MERGED, problem, remedy)
        _delete(held, refs, branch)
        return found is not None


def put_away(repository: Repository, branch: str, *, target: str) -> str:
    """Delete a task's branch; keep its commits under a ref if they are not merged into the target.

    Returns that ref, or ''. If it has the work of an earlier branch of that name, it gets both.
    Raises RefusedError as `delete_branch` does.
    """
    saved = saved_ref(branch)
    with repository.locked() as held:
        names = (mark_ref(branch), HEADS + branch, HEADS + target, saved, kept_of(branch))
        refs = read_refs(held, *names)
        found, earlier = refs.get(HEADS + branch), refs.get(saved)
        kept: list[tuple[str, ...]] = []
        if found is not None:
            _refuse_kept(found, branch, marks_among(refs).get(branch))
            if not _is_merged(held, found, refs, branch, target):
                commit = _joined(held, found, earlier)
                command = ("update", saved, commit, earlier.sha) if earlier else None
                kept = [command or ("create", saved, commit)]
        _delete(held, refs, branch, kept)
        return saved if kept else ""


def saved_ref(branch: str) -> str:
    """Return the ref that has the work of a task's branch after that was put away."""
    return SAVED + branch.removeprefix(PREFIX)


def kept_of(branch: str) -> str:
    """Return below which refs the other branches of the agents of a task's branch are kept."""
    return f"{KEPT}{branch.removeprefix(PREFIX)}/"


def _delete(
    repository: Repository,
    refs: Mapping[str, Ref],
    branch: str,
    before: Sequence[tuple[str, ...]] = (),
) -> None:
    """Run the commands `before`, then delete a branch and its mark, if they are among the refs.

    Of the other branches of its agents, those are deleted that some other ref leads to.
    """
    # Several transactions: in one, git could be killed when only the mark is deleted.
    transactions = [[command] for command in before]
    if branch_ref := refs.get(HEADS + branch):
        transactions.append([("delete", HEADS + branch, branch_ref.sha)])
    if branch in marks_among(refs):
        transactions.append([("delete", mark_ref(branch), "")])
    if transactions:
        update_refs(repository, *transactions, reason="interlock: deleted")
    below = kept_of(branch)
    needless = [
        [("delete", name, ref.sha)]
        for name, ref in refs.items()
        if name.startswith(below) and _is_led_to(repository, ref.sha, outside=below)
    ]
    if needless:
        update_refs(repository, *needless, reason="interlock: deleted")


def _is_led_to(repository: Repository, commit: str, *, outside: str) -> bool:
    """Whether a ref leads to a commit that is not below these names."""
    other = ("--not", f"--exclude={outside}*", "--all")
    found = repository.git.run("rev-list", "--max-count=1", commit, *other, allowed=ANY_CODE)
    return found.exit_code == 0 and not found.output


def _joined(repository: Repository, found: Ref, earlier: Ref | None) -> str:
    """Return a commit that leads to the commits of a branch and to what its ref has already."""
    if earlier is None or contains(repository, found.sha, earlier.sha):
        return found.sha
    git = repository.git.in_folder(repository.root, **COMMITTER.variables())
    parents = ("-p", found.sha, "-p", earlier.sha)
    message = as_message("Work of two branches that had the same name")
    return git.line("commit-tree", found.tree, *parents, stdin=message)


def _refuse_kept(found: Ref, branch: str, mark: Mark | None) -> None:
    if mark is None:
        problem = f"the branch {branch!r} was not made for a task"
        remedy = "only its owner may delete it"
        raise RefusedError(Refusal.BRANCH_EXISTS, problem, remedy)
    if found.checkout:
        problem = f"the branch {branch!r} is checked out in {found.checkout}"
        raise RefusedError(Refusal.CHECKOUT_BUSY, problem, "remove that worktree first")


def _is_merged(
    repository: Repository, found: Ref, refs: Mapping[str, Ref], branch: str, target: str
) -> bool:
    """Whether the target has the commits of a task's branch, or the branch never had any."""
    if found.sha == marks_among(refs)[branch].base:
        return True
    merged = refs.get(HEADS + target)
    return merged is not None and contains(repository, merged.sha, found.sha)
