"""Saves all the work in a task's worktree, so that the worktree can be removed.

Work is every file that git does not ignore, and every commit that the worktree has checked out or
that an operation under way in it needs. What the agent itself has dropped, by a reset, an amended
commit or a finished rebase, is no work.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from interlock.git.agent_files import (
    clear,
    content,
    is_file,
    plain_files,
    replace_file,
)
from interlock.git.branch import put_away
from interlock.git.changes import commit_all
from interlock.git.checkout import LinkedTree, linked_trees, lock_of, shown
from interlock.git.errors import Refusal, RefusedError
from interlock.git.private_copy import (
    agents_folder,
    bring_in,
    folder_of_git,
    git_in,
)
from interlock.git.program import Git
from interlock.git.refs import HEADS, Ref, read_refs, update_refs
from interlock.git.repository import Identity, Repository, as_message
from interlock.git.worktree import Worktree, is_partial

_GIT = ".git"
_INDEX = "interlock-index"
# The refs and files in which git keeps the commits that an operation in a worktree needs. The
# patches of `git am` are files there, and in no commit.
_REFS = ("refs/bisect/", "refs/worktree/", "refs/rewritten/")
_FILES = ("MERGE_HEAD", "MERGE_AUTOSTASH", "CHERRY_PICK_HEAD", "REVERT_HEAD", "REBASE_HEAD")
_FOLDERS = ("rebase-merge", "rebase-apply", "sequencer", "refs")
_PATCHES = "rebase-apply/applying"
# Git writes the commits that are still to be picked with their ids cut off.
_ID = re.compile(rb"\b[0-9a-f]{4,64}\b")
_WHOLE_ID = re.compile(r"\b[0-9a-f]{40,64}\b")
_FAILED = 128
_FILE_BYTES_MAX = 64 * 1024 * 1024
_REMEDY = "take from the worktree what you need, then remove it"


@dataclass(frozen=True, slots=True)
class _Files:
    """The tree of a worktree's files, and that of what was staged, or '' if it has conflicts."""

    whole: str
    staged: str


def save_work(
    repository: Repository, worktree: Worktree, *, message: str, identity: Identity
) -> None:
    """Bring all the work in a worktree to its branch; do nothing if the worktree is gone.

    Work that cannot be committed as it is gets one commit, with the files as they are, whose
    parents are the commits that only the worktree has. Raises RefusedError if the work is safe in
    the worktree only, which then has to stay, and another GitError or OSError if a repeat may help.
    """
    tree = _tree_of_task(repository, worktree)
    if tree is None:
        return
    files: _Files | None = None
    if _has_files_of_agent(tree):
        is_committed = True
        try:
            commit_all(repository, worktree, message=message, identity=identity)
        except RefusedError:
            is_committed = False
        _refuse_unsaved_files(repository, worktree, tree)
        if not is_committed:
            files = _write_files(repository, worktree, tree.admin)
            bring_in(repository, worktree)
    else:
        bring_in(repository, worktree)
    if files or _has_unsaved_commits(repository, tree):
        _bring_to_branch(repository, worktree, tree, files, as_message(message), identity)


def commit_work(
    repository: Repository, worktree: Worktree, *, message: str, identity: Identity
) -> None:
    """Commit the work in a worktree to its branch, for somebody who goes on with that branch.

    Raises RefusedError if it cannot be committed as it is, or more would be lost with the worktree.
    Of a worktree that somebody has deleted, it brings the commits to the branch.
    """
    tree = _tree_of_task(repository, worktree)
    if tree is None:
        return
    if _has_files_of_agent(tree):
        commit_all(repository, worktree, message=message, identity=identity)
        _refuse_unsaved_files(repository, worktree, tree)
    else:
        bring_in(repository, worktree)
    if _has_unsaved_commits(repository, tree):
        if worktree.folder.is_dir():
            problem = f"{worktree.folder} has commits that are on no branch"
            raise RefusedError(Refusal.UNSAVED, problem, _REMEDY)
        _bring_to_branch(repository, worktree, tree, None, as_message(message), identity)


def leave_worktree(repository: Repository, worktree: Worktree, *, target: str) -> None:
    """Leave a worktree to its user: it stays as it is, and its branch is put away.

    So it keeps no later task from the name of its branch. Raises GitError.
    """
    tree, branch_ref = _tree_at(repository, worktree.folder), HEADS + worktree.branch
    if tree is None:
        return
    git = _outside(repository, tree)
    if git.run("symbolic-ref", "--quiet", "HEAD", allowed=(0, 1)).line() == branch_ref:
        git.run("update-ref", "--no-deref", "HEAD", branch_ref)
    put_away(repository, worktree.branch, target=target)


def _tree_of_task(repository: Repository, worktree: Worktree) -> LinkedTree | None:
    """Return a worktree as git knows it; None if it is gone. Raises RefusedError."""
    tree = _tree_at(repository, worktree.folder)
    if tree is None and worktree.folder.is_dir():
        problem = f"git does not know {worktree.folder} as a worktree any more"
        raise RefusedError(Refusal.UNSAVED, problem, _REMEDY)
    return tree


def _has_files_of_agent(tree: LinkedTree) -> bool:
    return tree.folder.is_dir() and not is_partial(tree)


def _refuse_unsaved_files(repository: Repository, worktree: Worktree, tree: LinkedTree) -> None:
    """Refuse a worktree with files that no commit of its branch can have. Raises RefusedError."""
    if any((folder / _PATCHES).exists() for folder in (tree.admin, agents_folder(tree.admin))):
        problem = f"`git am` has not applied all its patches in {worktree.folder}"
        raise RefusedError(Refusal.UNSAVED, problem, _REMEDY)
    inside = tuple(_unsaved_repositories(repository, worktree))
    if inside:
        problem = f"{worktree.folder} contains a repository with work of its own: {shown(inside)}"
        raise RefusedError(Refusal.UNSAVED, problem, _REMEDY)


def _tree_at(repository: Repository, folder: Path) -> LinkedTree | None:
    return next((tree for tree in linked_trees(repository) if tree.folder == folder), None)


def _has_unsaved_commits(repository: Repository, tree: LinkedTree) -> bool:
    """Whether a worktree has a commit to which no ref of its repository leads."""
    commits = _own_commits(repository, tree)
    if not commits:
        return False
    # Without the option, git counts what other worktrees have checked out as well.
    command = ("rev-list", "--max-count=1", "--single-worktree", *commits, "--not", "--all")
    return bool(repository.git.run(*command).output)


def _own_commits(repository: Repository, tree: LinkedTree) -> tuple[str, ...]:
    """Return the commits that a worktree has checked out or needs, each once; HEAD comes first."""
    git = _outside(repository, tree)
    listing = ("for-each-ref", "--format=%(objectname)", *_REFS)
    names = ["HEAD", *git.run(*listing).output.decode().split()]
    for folder in (tree.admin, agents_folder(tree.admin)):
        for file in _files_of_operations(folder):
            names += [name.decode() for name in _ID.findall(_read(file))]
    lines = "".join(f"{name}^{{commit}}\n" for name in dict.fromkeys(names))
    form = "--batch-check=%(objectname) %(objecttype)"
    known = git.run("cat-file", form, stdin=lines.encode()).output.decode().splitlines()
    found = (line.removesuffix(" commit") for line in known if line.endswith(" commit"))
    return tuple(dict.fromkeys(found))


def _outside(repository: Repository, tree: LinkedTree) -> Git:
    """Return git for the refs of a worktree, outside of its sandbox: it reads none of its files."""
    return repository.git.in_folder(repository.root, GIT_DIR=str(tree.admin))


def _files_of_operations(folder: Path) -> Iterator[Path]:
    """Yield the plain files of operations in git's folder of a worktree, or in the agent's one."""
    yield from (folder / name for name in _FILES if is_file(folder / name))
    for name in _FOLDERS:
        yield from plain_files(folder / name)


def _read(file: Path) -> bytes:
    """Return what is in a file of an operation. Raises RefusedError for a very large one."""
    found = content(file, _FILE_BYTES_MAX + 1)
    if len(found) > _FILE_BYTES_MAX:
        problem = f"{file} has more than {_FILE_BYTES_MAX} bytes, so git has not written it"
        raise RefusedError(Refusal.UNSAVED, problem, _REMEDY)
    return found


def _write_files(repository: Repository, worktree: Worktree, admin: Path) -> _Files:
    """Write the files of a worktree as a tree. Its index stays as it is, with its conflicts."""
    with git_in(repository, worktree).locked(lock_of(admin)) as held:
        inside = folder_of_git(repository, worktree)
        copies = [inside / name for name in (_INDEX, f"{_INDEX}.lock")]
        for leftover in copies:
            clear(leftover)
        if index := content(inside / "index"):
            replace_file(copies[0], index)
        own = held.in_folder(held.folder, GIT_INDEX_FILE=str(admin / _INDEX))
        try:
            staged = own.run("write-tree", allowed=(0, _FAILED)).line()
            own.run("add", "--all")
            return _Files(own.line("write-tree"), staged)
        finally:
            clear(copies[0])


def _bring_to_branch(
    repository: Repository,
    worktree: Worktree,
    tree: LinkedTree,
    files: _Files | None,
    message: bytes,
    identity: Identity,
) -> None:
    """Move the branch to a commit that leads to a worktree's commits and files.

    Without files that commit has those of the worktree's HEAD.
    """
    with repository.locked() as held:
        branch_ref = HEADS + worktree.branch
        branch = read_refs(held, branch_ref).get(branch_ref)
        _refuse_checkout_elsewhere(branch, worktree)
        git = held.git.in_folder(held.root, **identity.variables())
        commits = list(_own_commits(held, tree))
        at_head = _tree_of(git, commits[0]) if commits else ""
        whole = files.whole if files else at_head
        if (
            branch
            and branch.tree == whole
            and _independent(git, [branch.sha, *commits]) == [branch.sha]
        ):
            return
        if files and at_head and files.staged not in ("", whole, at_head):
            staged = ("commit-tree", files.staged, "-p", commits[0])
            commits.append(git.line(*staged, stdin=as_message("What was staged")))
        parents = _independent(git, [*commits, *([branch.sha] if branch else [])])
        new = parents[0] if len(parents) == 1 else ""
        if not new or _tree_of(git, new) != whole:
            links = [part for parent in parents for part in ("-p", parent)]
            new = git.line("commit-tree", whole, *links, stdin=message)
        command = ("update", branch_ref, new, branch.sha) if branch else ("create", branch_ref, new)
        update_refs(held, [command], reason="interlock: saved")


def _tree_of(git: Git, commit: str) -> str:
    return git.line("rev-parse", f"{commit}^{{tree}}")


def _refuse_checkout_elsewhere(branch: Ref | None, worktree: Worktree) -> None:
    where = branch.checkout if branch else ""
    if where and os.path.realpath(where) != str(worktree.folder):
        problem = f"the branch {worktree.branch!r} is checked out in {where} too"
        raise RefusedError(Refusal.CHECKOUT_BUSY, problem, _REMEDY)


def _independent(git: Git, commits: list[str]) -> list[str]:
    """Return those of some commits to which no other one of them leads, in their order."""
    if not commits:
        return []
    left = set(git.run("merge-base", "--independent", *commits).output.decode().split())
    return [commit for commit in dict.fromkeys(commits) if commit in left]


def _unsaved_repositories(repository: Repository, worktree: Worktree) -> Iterator[str]:
    """Yield the repositories inside a worktree whose work is not known to be elsewhere as well.

    A submodule is elsewhere if its files are committed and its remote has had its commits, or the
    task began with them. A repository that git ignores is as little work as any ignored file.
    """
    inside = tuple(_repositories_in(worktree.folder))
    if not inside:
        return
    git = git_in(repository, worktree)
    outer = [path for path in inside if not any(path.startswith(f"{one}/") for one in inside)]
    names = "".join(f"{path}\0" for path in outer if path != ".").encode(errors="surrogateescape")
    ignored = git.run("check-ignore", "-z", "--stdin", stdin=names, allowed=(0, 1)).names()
    left = [path for path in outer if path not in ignored]
    if not left:
        return
    began_with = _links(git.run("ls-tree", "-z", worktree.base, "--", *left).names())
    known = _links(git.run("ls-files", "--stage", "-z", "--", *left).names())
    changed = git.run("diff-files", "--name-only", "-z", "--ignore-submodules=none", "--", *left)
    for path in left:
        saved = path in known and path not in changed.names()
        nested = (one for one in inside if one == path or one.startswith(f"{path}/"))
        if not saved or any(
            _has_own_commits(worktree.folder / one, began_with.get(one), git) for one in nested
        ):
            yield path


def _repositories_in(folder: Path) -> Iterator[str]:
    """Yield the folders with a repository; that of the worktree itself only if an agent made it."""
    for inside, folders, files in os.walk(folder):
        path = os.path.relpath(inside, folder)
        if _GIT in folders or (_GIT in files and path != "."):
            yield path
        if _GIT in folders:
            folders.remove(_GIT)


def _links(lines: tuple[str, ...]) -> dict[str, str]:
    """Return the commits of submodules by path, from lines of `ls-tree` or `ls-files --stage`."""
    parts = (line.partition("\t") for line in lines if line.startswith("160000 "))
    return {path: _WHOLE_ID.findall(facts)[0] for facts, _, path in parts}


def _has_own_commits(folder: Path, began_with: str | None, git: Git) -> bool:
    """Whether a submodule has a commit that neither its remote nor the task's base had."""
    known = ("--remotes", *((began_with,) if began_with else ()))
    command = ("rev-list", "--max-count=1", "HEAD", "--branches", "--glob=refs/stash*")
    found = Git(folder, git.command_s, sandbox=git.sandbox).run(
        *command, "--not", *known, allowed=(0, _FAILED)
    )
    return found.exit_code != 0 or bool(found.output)
