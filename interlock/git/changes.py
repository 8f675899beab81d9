"""Lists the changes of a task in its worktree, and commits them."""

from __future__ import annotations

from dataclasses import replace

from interlock.git.agent_files import clear
from interlock.git.branch import using_commit_of
from interlock.git.checkout import lock_of, shown
from interlock.git.errors import Refusal, RefusedError
from interlock.git.private_copy import bring_in, folder_of_git, git_in
from interlock.git.program import Git
from interlock.git.repository import Identity, Repository, as_message
from interlock.git.signing import sign_last_commit
from interlock.git.status import Status, whole_status
from interlock.git.submodules import refuse_changed_files, refuse_own_commits
from interlock.git.worktree import Worktree, admin_of

_LOCKS = ("index.lock", "HEAD.lock")


def changed_files(repository: Repository, worktree: Worktree, *, base: str) -> tuple[str, ...]:
    """Return every path that differs from the base, committed or not, sorted.

    That includes both names of a renamed file and untracked files, but no ignored ones. Raises
    GitError.
    """
    git = git_in(repository, worktree)
    compare = ("diff", "--name-only", "-z", "--no-renames", "--no-ext-diff", "--no-relative")
    with using_commit_of(repository, base) as (since,):
        tracked = git.run(*compare, "--ignore-submodules=none", since, "--").names()
    untracked = git.run("ls-files", "-z", "--others", "--exclude-standard").names()
    return tuple(sorted({*tracked, *untracked}))


def commit_all(
    repository: Repository, worktree: Worktree, *, message: str, identity: Identity
) -> bool:
    """Commit everything in a worktree to its branch, also untracked files.

    Returns whether anything was left to commit. Call it when the agent has ended or has reported
    that it is done: calls of Interlock exclude each other, so a git lock on the worktree or the
    branch then comes from a killed git, and is removed. Raises RefusedError, with nothing changed,
    if the worktree is on another branch, has unresolved conflicts, contains a repository, or has
    work in a submodule.
    """
    try:
        made = _commit_all(repository, worktree, message, identity)
    finally:
        bring_in(repository, worktree)
    sign_last_commit(repository, worktree.branch, identity)
    return made


def _commit_all(
    repository: Repository, worktree: Worktree, message: str, identity: Identity
) -> bool:
    git = git_in(repository, worktree)
    with git.locked(lock_of(admin_of(repository, worktree.folder))) as held:
        inside = folder_of_git(repository, worktree)
        branch_lock = repository.common / "refs" / "heads" / f"{worktree.branch}.lock"
        for lock in (*(inside / name for name in _LOCKS), branch_lock):
            clear(lock)
        status = whole_status(held)
        _refuse_unfit(held, worktree, status)
        at_base = status.commit == worktree.base
        clean = not (status.changed or status.untracked)
        if clean and at_base:
            return False
        if not clean:
            held.run("add", "--all")
        compare = ("diff-index", "--cached", "--no-renames", "--ignore-submodules=none", "-z")
        since_base = held.run(*compare, worktree.base).names()
        _refuse_embedded(held, _added_links(held, since_base))
        outside = replace(repository.git.in_folder(worktree.folder), sandbox=git.sandbox)
        refuse_changed_files(outside, status.dirty)
        refuse_own_commits(outside, repository.common / "modules", _moved_links(since_base))
        if clean or not (since_base if at_base else _is_staged(held)):
            return False
        author = held.in_folder(held.folder, **identity.variables())
        options = ("--quiet", "--no-verify", "--no-gpg-sign", "--allow-empty-message")
        text = as_message(message)
        author.run("commit", *options, "--cleanup=whitespace", "--file=-", stdin=text)
        return True


def _refuse_unfit(git: Git, worktree: Worktree, status: Status) -> None:
    if status.branch != worktree.branch:
        where = f"on {status.branch!r}" if status.branch else "on no branch"
        problem = f"the worktree {worktree.folder} is {where}, not on {worktree.branch!r}"
        remedy = f"an agent has to leave it on {worktree.branch!r}"
        raise RefusedError(Refusal.WRONG_BRANCH, problem, remedy)
    if status.unmerged:
        problem = f"a merge in {worktree.folder} left conflicts in {shown(status.unmerged)}"
        raise RefusedError(Refusal.CONFLICTS_LEFT, problem, "resolve and add them")
    # Git lists a folder instead of its files only if the folder is a repository.
    _refuse_embedded(git, tuple(path for path in status.untracked if path.endswith("/")))


def _refuse_embedded(git: Git, paths: tuple[str, ...]) -> None:
    if paths:
        problem = f"{git.folder} contains another repository in {shown(paths)}"
        remedy = "its files would be lost by a commit: delete its .git, or make it a submodule"
        raise RefusedError(Refusal.EMBEDDED_REPOSITORY, problem, remedy)


def _added_links(git: Git, since_base: tuple[str, ...]) -> tuple[str, ...]:
    """Return the repositories that were added since the base and are not submodules."""
    added = zip(since_base[::2], since_base[1::2], strict=True)
    links = {path for facts, path in added if facts.startswith(":000000 160000")}
    known = ("config", "-z", "--file", ".gitmodules", "--get-regexp", r"^submodule\..*\.path$")
    if links:
        modules = git.run(*known, allowed=(0, 1)).names()
        links -= {entry.partition("\n")[2] for entry in modules}
    return tuple(sorted(links))


def _moved_links(since_base: tuple[str, ...]) -> dict[str, str]:
    """Return the submodules with another commit than at the base, and that commit."""
    changed = zip(since_base[::2], since_base[1::2], strict=True)
    return {path: facts.split()[3] for facts, path in changed if facts.split()[1] == "160000"}


def _is_staged(git: Git) -> bool:
    """Tell whether the index differs from the last commit."""
    compare = ("diff", "--cached", "--quiet", "--no-ext-diff", "--ignore-submodules=none")
    return git.run(*compare, "HEAD", allowed=(0, 1)).exit_code == 1
