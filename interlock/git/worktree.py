"""The worktrees of tasks: folders with a task's branch checked out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import mkdtemp

from interlock.git.agent_files import make_deletable
from interlock.git.branch import (
    MARKS,
    Mark,
    check_name,
    head_commit,
    make,
    mark_ref,
    marks,
    marks_among,
    refs_around,
    refuse_taken,
    replace_mark,
    using_commit_of,
)
from interlock.git.checkout import (
    LinkedTree,
    checkouts,
    is_of_task,
    linked_trees,
    lock_of,
    shown,
)
from interlock.git.errors import Refusal, RefusedError
from interlock.git.program import Git
from interlock.git.refs import HEADS, Ref, read_refs
from interlock.git.repository import Repository
from interlock.git.status import whole_status
from interlock.git.submodules import MODULES, check_out_submodules
from interlock.workers.files.private import make_folders
from interlock.workers.processes.sandbox import Sandbox

_REMOVING = "interlock-removing"
# The reason for which a worktree is locked until its files are complete; git itself has it too.
_INITIALIZING = "initializing"


@dataclass(frozen=True, slots=True)
class Worktree:
    """A task's worktree. Its branch began at `base`; `present` is false once it is removed."""

    branch: str
    folder: Path
    base: str
    present: bool


def worktrees(repository: Repository) -> tuple[Worktree, ...]:
    """Return the worktrees of all tasks whose branch is not deleted yet."""
    made = marks(repository)
    present = {tree.folder for tree in linked_trees(repository) if not tree.is_gone}
    return tuple(
        Worktree(mark.branch, mark.folder, mark.base, mark.folder in present) for mark in made
    )


def worktree_and_tip(repository: Repository, branch: str) -> tuple[Worktree | None, str | None]:
    """Return the worktree of a task's branch and the branch's commit; None for one that is gone."""
    refs = read_refs(repository, mark_ref(branch), HEADS + branch)
    mark, tip = marks_among(refs).get(branch), refs.get(HEADS + branch)
    worktree = None
    if mark is not None:
        tree = _at(linked_trees(repository), mark.folder)
        if tree is not None and not tree.is_gone:
            worktree = Worktree(branch, mark.folder, mark.base, present=True)
    return worktree, tip.sha if tip else None


def add_worktree(
    repository: Repository, *, branch: str, folder: Path, base: str | None, new: bool = False
) -> Worktree:
    """Make a branch at a base and check it out in a folder.

    The base is a branch or a commit id, or None for the commit that the repository has checked
    out. Repeated with the same branch and folder, it completes the worktree with the base of the
    first call; with `new`, a branch that exists is refused instead, and so is one of which only
    the mark exists. Raises RefusedError if the branch or the folder belongs to something else.
    """
    check_name(branch)
    folder = _real(folder)
    with repository.locked() as held:
        names = [*refs_around(branch), *([HEADS + base] if base is not None else [])]
        refs, trees = read_refs(held, MARKS, *names), linked_trees(held)
        made = marks_among(refs)
        mark = made.get(branch)
        if new and mark is not None:
            problem = f"the branch {branch!r} belongs to the worktree {mark.folder}"
            raise RefusedError(Refusal.BRANCH_EXISTS, problem, "remove both first")
        if mark is None:
            _refuse_unfit(held, folder, made, trees)
            mark = _make_marked(held, refs, branch=branch, folder=folder, base=base)
        elif mark.folder != folder:
            problem = f"the branch {branch!r} belongs to the worktree {mark.folder}"
            raise RefusedError(Refusal.BRANCH_EXISTS, problem, "choose another name")
        elif HEADS + branch not in refs:
            make(held, mark, marked=True)
        is_new = _check_out(held, mark, _at(trees, folder), refs.get(HEADS + branch))
    if is_new:
        _complete(repository, folder)
    return Worktree(mark.branch, mark.folder, mark.base, present=True)


def rehome(repository: Repository, branch: str, folder: Path) -> None:
    """Give the worktree of a task's branch another folder, because the first is gone.

    Raises RefusedError if the branch was not made for a task, or its folder is still there.
    """
    folder = _real(folder)
    with repository.locked() as held:
        made, trees = marks_among(read_refs(held, MARKS)), linked_trees(held)
        mark = made.get(branch)
        if mark is None:
            problem = f"{branch!r} is not a branch that was made for a task"
            raise RefusedError(Refusal.BRANCH_MISSING, problem, "add a worktree for it first")
        if mark.folder.is_dir():
            problem = f"the worktree of {branch!r} is still at {mark.folder}"
            raise RefusedError(Refusal.FOLDER_TAKEN, problem, "use it there")
        if (gone := _at(trees, mark.folder)) is not None:
            _unregister(held, gone)
        others = tuple(tree for tree in trees if tree.folder != mark.folder)
        _refuse_unfit(held, folder, made, others)
        replace_mark(held, Mark(branch, folder, mark.base))


def remove_worktree(repository: Repository, folder: Path, *, force: bool) -> bool:
    """Remove a task's worktree; its branch stays. Returns whether it was there.

    Raises RefusedError for a folder that is not a task's and, without `force`, for one with
    uncommitted or untracked files.
    """
    folder = _real(folder)
    with repository.locked() as held:
        tree = _at(linked_trees(held), folder)
        if tree is None and not os.path.lexists(folder):
            return False
        if tree is None or not is_of_task(held, tree):
            problem = f"{folder} is not a worktree that was made for a task"
            raise RefusedError(Refusal.FOLDER_FOREIGN, problem, "only its owner may remove it")
        was_there = folder.is_dir()
        if was_there:
            # An incomplete worktree has only files from git, because no agent works in it yet.
            _allow_removal(held, tree, force=force or tree.locked == _INITIALIZING)
        _unregister(held, tree)
        return was_there


def admin_of(repository: Repository, folder: Path) -> Path:
    """Return the folder where git keeps its data about a worktree. Raises RefusedError."""
    tree = _at(linked_trees(repository), folder)
    if tree is None:
        problem = f"git knows no worktree at {folder}"
        raise RefusedError(Refusal.FOLDER_MISSING, problem, "add it again")
    return tree.admin


def git_file_of(folder: Path) -> Path:
    """Return the file that leads from a worktree to git's folder of it."""
    return folder / ".git"


def own_sandbox(sandbox: Sandbox, folder: Path) -> Sandbox:
    """Return the sandbox of commands that may write in a worktree, and not lead git elsewhere.

    Raises RefusedError for a link: an agent in a session may have put one in place of its worktree.
    """
    if folder.is_symlink():
        problem = f"{folder} is a link and no folder any more"
        raise RefusedError(Refusal.FOLDER_FOREIGN, problem, "put the worktree back in its place")
    return sandbox.with_more(writable=[folder], read_only=[git_file_of(folder)])


def is_partial(tree: LinkedTree) -> bool:
    """Tell whether a worktree is half made or half removed: its files are no work of an agent."""
    return tree.locked == _INITIALIZING or (tree.admin / _REMOVING).exists()


def _make_marked(
    repository: Repository, refs: Mapping[str, Ref], *, branch: str, folder: Path, base: str | None
) -> Mark:
    """Make a task's branch and its mark; `refs` has the branches that exist of the two."""
    start = head_commit(repository) if base is None else base
    known = refs.get(HEADS + start)
    with using_commit_of(repository, known.sha if known else start) as (commit,):
        refuse_taken(repository, refs, branch)
        mark = Mark(branch, folder, commit)
        make(repository, mark, marked=False)
    return mark


def _check_out(
    repository: Repository, mark: Mark, tree: LinkedTree | None, branch: Ref | None
) -> bool:
    """Check a task's branch out if it is not. Return whether the worktree has to be completed."""
    if tree is not None and _is_incomplete(tree):
        _unregister(repository, tree)
        tree = None
    if tree is None:
        _refuse_filled(mark.folder)
        make_folders(mark.folder.parent)
        options = ("--quiet", "--lock", "--reason", _INITIALIZING)
        repository.git.run("worktree", "add", *options, "--", str(mark.folder), mark.branch)
        lock_of(admin_of(repository, mark.folder)).touch()
        return True
    if branch is None or os.path.realpath(branch.checkout) != str(tree.folder):
        _refuse_other_branch(repository, mark)
    return False


def _complete(repository: Repository, folder: Path) -> None:
    """Check out the submodules of a new worktree, in a sandbox: an agent may have named them.

    The repository is not locked meanwhile, because they may come over a network.
    """
    admin = admin_of(repository, folder)
    git, modules = repository.git.in_folder(folder), admin / "modules"
    if repository.sandbox is not None and os.path.lexists(folder / MODULES):
        modules.mkdir(exist_ok=True)
        sandbox = own_sandbox(repository.sandbox, folder)
        read = [repository.root, repository.common]
        sandbox = sandbox.with_more(writable=[modules], read_only=read)
        git = replace(git, sandbox=sandbox)
    check_out_submodules(git, repository.common / "modules")
    (admin / "locked").unlink(missing_ok=True)


def _refuse_other_branch(repository: Repository, mark: Mark) -> None:
    # Git describes a ref with one folder only, even if the branch is checked out in two.
    on = next((tree.branch for tree in checkouts(repository) if tree.folder == mark.folder), None)
    if on != mark.branch:
        where = f"on {on!r}" if on else "on no branch"
        problem = f"the worktree {mark.folder} is {where}, not on {mark.branch!r}"
        raise RefusedError(Refusal.WRONG_BRANCH, problem, "remove it by force and add it again")


def _is_incomplete(tree: LinkedTree) -> bool:
    return tree.is_gone or is_partial(tree)


def _refuse_unfit(
    repository: Repository, folder: Path, made: Mapping[str, Mark], trees: Iterable[LinkedTree]
) -> None:
    around = [repository.common, repository.root, *(tree.folder for tree in trees)]
    if (repository.root / ".git").resolve() != repository.common:
        # The root is no main working tree, and only git knows whether and where there is one.
        around += [tree.folder for tree in checkouts(repository)]
    # Git in another working tree would show a worktree inside it as untracked files.
    if any(folder.is_relative_to(other) for other in around):
        problem = f"{folder} is inside the repository or one of its worktrees"
        raise RefusedError(Refusal.FOLDER_TAKEN, problem, "choose a folder elsewhere")
    if folder in {mark.folder for mark in made.values()}:
        problem = f"{folder} belongs to another task"
        raise RefusedError(Refusal.FOLDER_TAKEN, problem, "choose another folder")
    _refuse_filled(folder)


def _refuse_filled(folder: Path) -> None:
    if folder.is_symlink() or (folder.exists() and not _is_empty(folder)):
        problem = f"{folder} exists already and is not an empty folder"
        raise RefusedError(Refusal.FOLDER_TAKEN, problem, "choose another folder")


def _is_empty(folder: Path) -> bool:
    return folder.is_dir() and not any(folder.iterdir())


def _allow_removal(repository: Repository, tree: LinkedTree, *, force: bool) -> None:
    removing = tree.admin / _REMOVING
    # An interrupted removal was allowed at its first try, and may have deleted files already.
    if not force and not removing.exists():
        status = whole_status(_git_at(repository, tree.folder, tree.admin))
        if paths := status.changed + status.untracked:
            problem = f"the worktree {tree.folder} has files that are not committed"
            remedy = "commit them, or remove it by force"
            raise RefusedError(Refusal.DIRTY, f"{problem} ({shown(paths)})", remedy)
    removing.touch()


def _unregister(repository: Repository, tree: LinkedTree) -> None:
    remove = ("worktree", "remove", "--force", "--force", "--", str(tree.folder))
    if not tree.folder.is_dir():
        repository.git.run(*remove)
        return
    with repository.git.locked(lock_of(tree.admin)) as git:
        make_deletable(tree.folder)
        make_deletable(tree.admin)
        _point_to(tree.admin, tree.folder)
        git.run(*remove)


def _point_to(admin: Path, folder: Path) -> None:
    """Write the files that git needs to remove a worktree; a killed git may have left some out.

    A repository that an agent made at `.git` is moved aside, and is deleted with the folder.
    """
    pointer = git_file_of(folder)
    if pointer.is_dir() and not pointer.is_symlink():
        pointer.rename(mkdtemp(dir=folder))
    pointer.unlink(missing_ok=True)
    pointer.write_text(f"gitdir: {admin}\n")
    for name, content in (("HEAD", "ref: refs/heads/none\n"), ("commondir", "../..\n")):
        if not (admin / name).exists():
            (admin / name).write_text(content)


def _git_at(repository: Repository, folder: Path, admin: Path) -> Git:
    return repository.git.in_folder(folder, GIT_DIR=str(admin), GIT_WORK_TREE=str(folder))


def _at(trees: Iterable[LinkedTree], folder: Path) -> LinkedTree | None:
    return next((tree for tree in trees if tree.folder == folder), None)


def _real(folder: Path) -> Path:
    if not folder.is_absolute():
        problem = f"{str(folder)!r} is not an absolute path"
        raise RefusedError(Refusal.FOLDER_FOREIGN, problem, "give the whole path")
    # The last part is not resolved: a link at the worktree's path is not the worktree.
    return Path(os.path.realpath(folder.parent)) / folder.name
