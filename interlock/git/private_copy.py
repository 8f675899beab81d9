"""Git in the worktree of an agent, confined with a private copy of what git keeps.

What an agent left there must not act outside of its sandbox: a repository inside, for example,
has settings of its own, with programs that git would run. So all git in the worktree runs in the
agent's sandbox, that of the agent and that of Interlock. There two folders stand in place of those
of git: a copy in place of the repository's, in which a commit, branch, setting or hook is one of
the copy; and one in place of git's folder of the worktree, with the index and the operations under
way. Both lie in git's own folder of the worktree, which only Interlock and the user can write.

Then `bring_in` takes over what it has checked, and follows no link: the objects, each under the
name that its content has, the branch of the worktree, what is checked out, and the index. Other
branches and tags are kept under refs of ours, and are branches and tags again in the next copy,
unless the repository has one of that name.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from errno import EDQUOT, EIO, ENOSPC
from pathlib import Path
from typing import Any

from interlock.git.agent_files import (
    clear,
    commit_in,
    content,
    first_line,
    is_folder,
    is_id,
    keep_files,
    keep_folders,
    make_deletable,
    plain_files,
    replace_file,
)
from interlock.git.branch import KEPT, kept_of
from interlock.git.copied_objects import (
    bring_large_files,
    bring_objects,
    bring_pack,
)
from interlock.git.errors import (
    FailedError,
    ObstructedError,
    Refusal,
    RefusedError,
)
from interlock.git.program import ANY_CODE, Git
from interlock.git.refs import HEADS, is_branch_name, read_refs, update_refs
from interlock.git.repository import Repository
from interlock.git.worktree import (
    Worktree,
    admin_of,
    git_file_of,
    own_sandbox,
)
from interlock.workers.processes.sandbox import Sandbox

FOLDER = "interlock-copy"
STASH = "refs/stash"
TAGS = "refs/tags/"
# In git's folder of a worktree: the one that stands in its place in the sandbox. It is there as
# long as the worktree is, so that an agent finds a rebase of the agent before it.
_AGENTS = "interlock-agent"
# Where the sandbox shows objects of the repository, in which git and git-lfs look for what the copy
# lacks: both find them by the file `alternates`.
_SHARED = "interlock-shared"
_OBJECTS = ("objects", "lfs/objects")
# Git's files of a worktree that say where it looks for the rest, and our lock: read-only inside.
FIXED = ("commondir", "gitdir", "config.worktree", "interlock")
_COPIED = ("HEAD", "config", "info", "shallow")
_SHOWN = ("annex", "hooks", "modules")
# The submodules of the worktree.
_MODULES = ("modules",)
# What is taken over of git's folder of a worktree, besides HEAD: the index, and what a commit needs
# that ends an operation. A rebase stays inside, because its steps may be commands.
_INDEX, _MESSAGE = "index", "MERGE_MSG"
_COMMITS = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "ORIG_HEAD")
_BYTES_MAX = 1024 * 1024
# A folder that cannot be written now may be later; anything else is as the agent has left it.
_PASSING = (ENOSPC, EDQUOT, EIO)


@dataclass(frozen=True, slots=True)
class _Copy:
    """The private copy of a worktree: an agent can write in the folders `git` and `agents` only."""

    admin: Path

    @property
    def folder(self) -> Path:
        return self.admin / FOLDER

    @property
    def git(self) -> Path:
        return self.folder / "git"

    @property
    def agents(self) -> Path:
        return self.admin / _AGENTS

    @property
    def began(self) -> dict[str, Any]:
        """Return what the copy began with: the repository's refs, and the files of `_state`."""
        found: dict[str, Any] = json.loads((self.folder / "began").read_text())
        return found


def git_in(repository: Repository, worktree: Worktree) -> Git:
    """Return git for a task's worktree; no file there can point it to another repository.

    It runs in the sandbox of the worktree, if there is one: after a change of objects, refs or the
    index, call `bring_in`. Raises RefusedError if the worktree is gone.
    """
    admin = admin_of(repository, worktree.folder)
    variables = {"GIT_DIR": str(admin), "GIT_WORK_TREE": str(worktree.folder)}
    git = repository.git.in_folder(worktree.folder, **variables)
    return replace(git, sandbox=sandbox_of(repository, worktree))


def sandbox_of(repository: Repository, worktree: Worktree) -> Sandbox | None:
    """Return the sandbox for commands in a worktree, with its copy, which is made if need be.

    None for a repository that was opened without a sandbox. Raises GitError, OSError.
    """
    if repository.sandbox is None:
        return None
    common, admin = repository.common, admin_of(repository, worktree.folder)
    copy = _Copy(admin)
    if not copy.folder.is_dir():
        _make(repository, worktree, copy)
    _point_back(worktree, admin)
    objects = [name for name in _OBJECTS if (common / name).is_dir()]
    folders = [name for name in _SHOWN if (common / name).is_dir()]
    modules = [name for name in _MODULES if (admin / name).is_dir()]
    fixed = [name for name in FIXED if (admin / name).exists()]
    targets = (f"worktrees/{admin.name}", *(f"{_SHARED}/{name}" for name in objects), *folders)
    keep_folders(copy.git, targets)
    keep_folders(copy.agents, modules)
    keep_files(copy.agents, fixed)
    return own_sandbox(repository.sandbox, worktree.folder).with_more(
        read_only=[common / name for name in folders],
        placed=[(copy.git, common), (copy.agents, admin), *_in_place(admin, modules)],
        shown=[
            *((common / name, common / _SHARED / name) for name in objects),
            *_in_place(admin, fixed),
        ],
    )


def folder_of_git(repository: Repository, worktree: Worktree) -> Path:
    """Return where the files are that git in a worktree has in its own folder of the worktree.

    In a sandbox that is a folder in which an agent may have written anything.
    """
    admin = admin_of(repository, worktree.folder)
    return admin if repository.sandbox is None else _Copy(admin).agents


def agents_folder(admin: Path) -> Path:
    """Return the folder that stands in the sandbox in place of git's folder of a worktree."""
    return _Copy(admin).agents


def bring_in(repository: Repository, worktree: Worktree) -> None:
    """Take over what was committed in the copy of a worktree, and delete the copy.

    The agent must have ended. Without a copy nothing is done. Raises RefusedError for a copy that
    cannot be read, which then stays; another GitError, or OSError, if a repeat may help.
    """
    copy = _Copy(admin_of(repository, worktree.folder))
    if not copy.folder.is_dir():
        return
    with _as_refusal(copy, worktree):
        make_deletable(copy.folder)
        make_deletable(copy.agents)
        bring_objects(repository, copy.git / "objects", scratch=copy.folder)
        bring_large_files(repository.common / "lfs", copy.git / "lfs")
        branches = _branches(copy.git)
    _bring_refs(repository, worktree, copy, branches)
    _bring_checked_out(repository, worktree, copy, branches)
    clear(copy.folder)


@contextmanager
def _as_refusal(copy: _Copy, worktree: Worktree) -> Iterator[None]:
    """Refuse what cannot be read of a copy: a repeat would find the same."""
    try:
        yield
    except ObstructedError:
        raise
    except (FailedError, OSError) as error:
        if isinstance(error, OSError) and error.errno in _PASSING:
            raise
        problem = f"the commits of the agent of {worktree.folder} cannot be taken over: {error}"
        remedy = f"delete what cannot be read in {copy.git}, or take the files from the worktree"
        raise RefusedError(Refusal.UNSAVED, problem, remedy) from error


def _bring_refs(
    repository: Repository, worktree: Worktree, copy: _Copy, branches: Mapping[str, str]
) -> None:
    """Move the branch of a worktree to where its agent has it, and keep what else it changed."""
    own, kept, began = HEADS + worktree.branch, kept_of(worktree.branch), copy.began["refs"]
    tips = {name: ref.sha for name, ref in read_refs(repository, HEADS, TAGS, kept).items()}
    changed = {name: sha for name, sha in branches.items() if sha != began.get(name)}
    changes: list[tuple[str, ...]] = []
    if own in changed and tips.get(own) == began.get(own):
        # Without a commit before, git makes the branch.
        changes.append(("update", own, changed.pop(own), tips.get(own, "")))
    for name in sorted({*changed, *(began.keys() - branches.keys())}):
        ref, sha = kept + name.removeprefix("refs/"), changed.get(name)
        if sha is None or sha == tips.get(name):
            changes += [("delete", ref, "")] if ref in tips else []
        elif sha != tips.get(ref):
            changes.append(("update", ref, sha, ""))
    # Git may only make `a/b` after it has deleted `a`.
    changes.sort(key=lambda change: change[0])
    update_refs(repository, *([one] for one in changes), reason="interlock: by its agent")


def _bring_checked_out(
    repository: Repository, worktree: Worktree, copy: _Copy, branches: Mapping[str, str]
) -> None:
    """Take over what is checked out, unless somebody has changed it outside of the copy."""
    admin, agents = copy.admin, copy.agents
    if copy.began["state"] != _state(admin):
        return
    if head := _checked_out(repository, agents, HEADS + worktree.branch, branches):
        replace_file(admin / "HEAD", os.fsencode(f"{head}\n"))
    for name in _COMMITS:
        data = content(agents / name, _BYTES_MAX)
        if data and all(is_id(os.fsdecode(line)) for line in data.splitlines()):
            replace_file(admin / name, data)
        else:
            clear(admin / name)
    if message := content(agents / _MESSAGE, _BYTES_MAX):
        replace_file(admin / _MESSAGE, message)
    else:
        clear(admin / _MESSAGE)
    _bring_index(repository, admin, agents / _INDEX)


def _bring_index(repository: Repository, admin: Path, index: Path) -> None:
    """Take over an index that git can read; else the index is that of the commit checked out."""
    new, data = admin / f"interlock-{_INDEX}", content(index)
    replace_file(new, data)
    if data:
        # Git compares the time of a file with that of the index.
        written_ns = index.lstat().st_mtime_ns
        os.utime(new, ns=(written_ns, written_ns))
    git = repository.git.in_folder(repository.root, GIT_DIR=str(admin), GIT_INDEX_FILE=str(new))
    if not data or git.run("ls-files", "--unmerged", "-z", allowed=ANY_CODE).exit_code:
        clear(new)
        if git.run("read-tree", "HEAD", allowed=ANY_CODE).exit_code:
            return
    new.replace(admin / _INDEX)


def _checked_out(
    repository: Repository, agents: Path, own: str, branches: Mapping[str, str]
) -> str | None:
    """Return what an agent has checked out, as it may stand in HEAD; None for what is nowhere.

    No other branch than that of the worktree is checked out there for the repository: its commit
    is, and the next copy attaches it.
    """
    head = first_line(agents / "HEAD")
    if head == f"ref: {own}":
        return head
    commit = branches.get(head.removeprefix("ref: "), head)
    kind = ("cat-file", "-t", commit)
    is_commit = is_id(commit) and repository.git.run(*kind, allowed=ANY_CODE).line() == "commit"
    return commit if is_commit else None


def bring_commits(repository: Repository, worktree: Worktree) -> None:
    """Take over what the agent of a worktree has committed to its branch so far, as it works on.

    Raises GitError, OSError.
    """
    copy, own = _Copy(admin_of(repository, worktree.folder)), HEADS + worktree.branch
    if not copy.folder.is_dir():
        return
    # All that reads what the agent could change meanwhile runs in its sandbox.
    git, began = git_in(repository, worktree), copy.began
    known, tip = began["refs"].get(own), git.line("rev-parse", "--verify", own)
    if tip == known or not is_id(tip):
        return
    wanted = f"{tip}\n^{known}\n" if known else f"{tip}\n"
    pack = git.run("pack-objects", "--quiet", "--revs", "--stdout", stdin=wanted.encode()).output
    bring_pack(repository, pack)
    change = ("update", own, tip, known or "")
    update_refs(repository, [change], reason="interlock: by its agent")
    began["refs"][own] = tip
    replace_file(copy.folder / "began", json.dumps(began).encode())


def _make(repository: Repository, worktree: Worktree, copy: _Copy) -> None:
    """Make a copy: the branches and tags of the repository as they are now, and its settings."""
    kept, refs = kept_of(worktree.branch), read_refs(repository)
    lines = {name: ref.sha for name, ref in refs.items() if not name.startswith((KEPT, STASH))}
    for name in (name for name in refs if name.startswith(kept)):
        lines.setdefault(f"refs/{name.removeprefix(kept)}", refs[name].sha)
    new = copy.folder.with_name(f"{FOLDER}.new")
    clear(new)
    git = new / "git"
    (git / "refs").mkdir(parents=True, mode=0o700)
    (git / "objects" / "info").mkdir(parents=True)
    # Git-lfs understands whole paths only.
    alternates = (Path(os.pardir), repository.common)
    (git / "objects" / "info" / "alternates").write_bytes(
        b"".join(os.fsencode(f"{folder / _SHARED}/objects\n") for folder in alternates)
    )
    (git / "packed-refs").write_bytes(
        b"".join(os.fsencode(f"{sha} {name}\n") for name, sha in sorted(lines.items()))
    )
    for name in _COPIED:
        source = repository.common / name
        with suppress(FileNotFoundError):
            if source.is_dir():
                shutil.copytree(source, git / name, symlinks=True)
            else:
                shutil.copyfile(source, git / name)
    (copy.admin / "config.worktree").touch()
    own = {name: sha for name, sha in lines.items() if _is_taken(name)}
    (new / "began").write_text(json.dumps({"refs": own, "state": _state(copy.admin)}))
    _fill_agents_folder(copy, lines)
    new.rename(copy.folder)


def _fill_agents_folder(copy: _Copy, lines: Mapping[str, str]) -> None:
    """Let the sandbox have what is checked out; what only an agent has there stays."""
    admin, agents = copy.admin, copy.agents
    agents.mkdir(mode=0o700, exist_ok=True)
    head, branch = first_line(admin / "HEAD"), first_line(agents / "HEAD").removeprefix("ref: ")
    if _is_taken(branch) and lines.get(branch) == head:
        head = f"ref: {branch}"
    replace_file(agents / "HEAD", os.fsencode(f"{head}\n"))
    for name in (_INDEX, _MESSAGE, *_COMMITS):
        clear(agents / name)
        with suppress(FileNotFoundError):
            shutil.copy2(admin / name, agents / name)


def _point_back(worktree: Worktree, admin: Path) -> None:
    """Put the file back that leads from a worktree to git, if it is another one now.

    A repository in its place stays: it may have work.
    """
    file = git_file_of(worktree.folder)
    if is_folder(worktree.folder) and not is_folder(file):
        leads_to = os.path.normpath(file.parent / first_line(file).removeprefix("gitdir: "))
        if leads_to != str(admin):
            replace_file(file, os.fsencode(f"gitdir: {admin}\n"))


def _state(admin: Path) -> list[Any]:
    """Return what shows whether somebody has changed what is checked out in a worktree."""
    facts: list[Any] = [first_line(admin / "HEAD")]
    with suppress(FileNotFoundError):
        found = (admin / _INDEX).stat()
        facts += [found.st_ino, found.st_size, found.st_mtime_ns]
    return facts


def _in_place(folder: Path, names: Iterable[str]) -> list[tuple[Path, Path]]:
    return [(folder / name, folder / name) for name in names]


def _branches(git: Path) -> dict[str, str]:
    """Return what the branches and tags of a copy name, and its stash, by their whole names."""
    found = dict[str, str]()
    for line in os.fsdecode(content(git / "packed-refs")).splitlines():
        sha, _, name = line.partition(" ")
        if is_id(sha):
            found[name] = sha
    for file in plain_files(git / "refs"):
        if (commit := commit_in(file)) is not None:
            found[file.relative_to(git).as_posix()] = commit
    return {name: sha for name, sha in found.items() if _is_taken(name)}


def _is_taken(name: str) -> bool:
    if name == STASH:
        return True
    kinds = (kind for kind in (HEADS, TAGS) if name.startswith(kind))
    return any(is_branch_name(name.removeprefix(kind)) for kind in kinds)
