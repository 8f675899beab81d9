"""Git in the worktree of an agent, confined with a private copy of what git keeps.

What an agent left there must not act outside of its sandbox: a repository inside, for example,
has settings of its own, with programs that git would run. So all git in the worktree runs in the
agent's sandbox, that of the agent and that of Interlock. There the copy stands in place of the
repository's folder of git: a commit, branch, setting or hook is one of the copy, and no branch of
the repository moves. Then `bring_in` takes over the commits: the objects, each under the name that
its content has, and the branch of the worktree. Other branches and tags are kept under refs of
ours, and are branches and tags again in the next copy.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from stat import S_ISDIR, S_ISREG

from interlock.workers.files.private import write_private
from interlock.workers.gateways.git.branch import PREFIX
from interlock.workers.gateways.git.program import Git
from interlock.workers.gateways.git.refs import HEADS, is_branch_name, read_refs, update_refs
from interlock.workers.gateways.git.repository import Repository
from interlock.workers.gateways.git.worktree import Worktree, admin_of
from interlock.workers.processes.sandbox import Sandbox

FOLDER = "interlock-copy"
# Where the sandbox shows the repository's own objects, in which git looks for what the copy lacks.
OBJECTS = "interlock-objects"
KEPT = "refs/interlock/branches/"
STASH = "refs/stash"
TAGS = "refs/tags/"
# Git's files of a worktree that say where it looks for the rest, and our lock. They are used
# outside of the sandbox as well, so nothing inside may change them.
FIXED = ("commondir", "gitdir", "config.worktree", "interlock")
_COPIED = ("HEAD", "config", "info", "shallow")
_SHOWN = ("annex", "hooks", "modules")
_SHARED = ("lfs",)
_BEGAN = "interlock-began"
# In this file of the worktree is the branch that the agent has checked out, if only copies have it.
_CHECKED_OUT = "interlock-branch"
_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_LOOSE = re.compile(r"[0-9a-f]{38}|[0-9a-f]{62}")
_REF_BYTES_MAX = 1_024
_FILE_BYTES_MAX = 1024**3
# Fewer and smaller objects become single files, as by `git fetch`; more of them become a pack.
_UNPACKED_MAX, _UNPACKED_BYTES_MAX = 100, 16 * 1024 * 1024
_COUNT_IN_PACK = slice(8, 12)  # the number of objects in a pack, big-endian


def git_in(repository: Repository, worktree: Worktree) -> Git:
    """Return git for a task's worktree; no file there can point it to another repository.

    It runs in the sandbox of the worktree, if there is one: after a change of objects or refs, call
    `bring_in`. Raises RefusedError if the worktree is gone.
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
    copy = admin / FOLDER
    if not copy.is_dir():
        _make(repository, worktree, copy)
    shared = [common / name for name in _SHARED]
    shown = [*(common / name for name in _SHOWN), *(admin / name for name in FIXED)]
    return repository.sandbox.with_more(
        hidden=[copy],
        writable=[worktree.folder, admin, *shared],
        read_only=shown,
        placed=[(copy, common)],
        shown=[(common / "objects", common / OBJECTS)],
    )


def bring_in(repository: Repository, worktree: Worktree) -> None:
    """Take over what was committed in the copy of a worktree, and delete the copy.

    The agent must have ended. Without a copy nothing is done. Raises GitError, OSError.
    """
    admin = admin_of(repository, worktree.folder)
    copy = admin / FOLDER
    if not copy.is_dir():
        return
    if _is_folder(copy / "objects"):
        _bring_objects(repository, copy)
    own, kept = HEADS + worktree.branch, _kept(worktree)
    found = read_refs(repository, HEADS, TAGS, kept)
    tips = {name: ref.sha for name, ref in found.items()}
    branches = _branches(copy)
    changes: list[tuple[str, ...]] = []
    if branches.get(own, tips.get(own)) != tips.get(own) and tips.get(own) == _began(copy):
        changes.append(("update", own, branches[own], tips[own]))
    wanted = {
        kept + name.removeprefix("refs/"): sha
        for name, sha in branches.items()
        if name != own and sha != tips.get(name)
    }
    gone = [("delete", name, "") for name in tips if name.startswith(kept) and name not in wanted]
    changes += [("update", name, sha, "") for name, sha in wanted.items() if sha != tips.get(name)]
    update_refs(repository, *([one] for one in (*gone, *changes)), reason="interlock: by its agent")
    _detach(admin, own, branches)
    shutil.rmtree(copy)


def bring_commits(repository: Repository, worktree: Worktree) -> None:
    """Take over what the agent of a worktree has committed to its branch so far, as it works on.

    Raises GitError, OSError.
    """
    copy = admin_of(repository, worktree.folder) / FOLDER
    if not copy.is_dir():
        return
    # All that reads what the agent could change meanwhile runs in its sandbox.
    git, own, known = git_in(repository, worktree), HEADS + worktree.branch, _began(copy)
    tip = git.line("rev-parse", "--verify", own)
    if tip == known or not _ID.fullmatch(tip):
        return
    wanted = f"{tip}\n^{known}\n" if known else f"{tip}\n"
    pack = git.run("pack-objects", "--quiet", "--revs", "--stdout", stdin=wanted.encode()).output
    few = int.from_bytes(pack[_COUNT_IN_PACK]) < _UNPACKED_MAX
    repository.git.run(
        *(("unpack-objects", "-q") if few else ("index-pack", "--stdin")), stdin=pack
    )
    change = ("update", own, tip, known or "")
    update_refs(repository, [change], reason="interlock: by its agent")
    _write(copy / _BEGAN, tip)


def _make(repository: Repository, worktree: Worktree, copy: Path) -> None:
    """Make a copy: the branches and tags of the repository as they are now, and its settings."""
    own, kept = HEADS + worktree.branch, _kept(worktree)
    tips = {name: ref.sha for name, ref in read_refs(repository).items()}
    lines = {name: sha for name, sha in tips.items() if not name.startswith((KEPT, STASH))}
    ours = (name for name in tips if name.startswith(kept))
    for name in ours:  # not over a branch of the repository, which others may have moved since
        lines.setdefault(f"refs/{name.removeprefix(kept)}", tips[name])
    new = copy.with_name(f"{FOLDER}.new")
    shutil.rmtree(new, ignore_errors=True)
    (new / "refs").mkdir(parents=True, mode=0o700)
    (new / "worktrees").mkdir()
    (new / "objects" / "info").mkdir(parents=True)
    (new / "objects" / "info" / "alternates").write_text(f"../{OBJECTS}\n")
    (new / "packed-refs").write_bytes(
        b"".join(os.fsencode(f"{sha} {name}\n") for name, sha in sorted(lines.items()))
    )
    for name in _COPIED:
        source = repository.common / name
        with suppress(FileNotFoundError):
            if source.is_dir():
                shutil.copytree(source, new / name, symlinks=True)
            else:
                shutil.copyfile(source, new / name)
    (new / _BEGAN).write_text(tips.get(own, ""))
    (copy.parent / "config.worktree").touch()
    _attach(copy.parent, lines)
    new.rename(copy)


def _kept(worktree: Worktree) -> str:
    return f"{KEPT}{worktree.branch.removeprefix(PREFIX)}/"


def _began(copy: Path) -> str | None:
    """Return the commit that the branch of the worktree had when its copy was made."""
    return _commit_in(copy / _BEGAN)


def _bring_objects(repository: Repository, copy: Path) -> None:
    """Add the objects of a copy to the repository. Git computes their names from their content.

    So no other content comes under the name of an object that the repository has, or will have.
    """
    objects = copy / "objects"
    # It could name other folders in which to look for objects.
    shutil.rmtree(objects / "info", ignore_errors=True)
    names, size = _objects(repository, objects)
    if not names:
        return
    git = repository.git.in_folder(repository.root, GIT_ALTERNATE_OBJECT_DIRECTORIES=str(objects))
    listed = "".join(f"{name}\n" for name in names).encode()
    pack = ("pack-objects", "--quiet", "--window=0")
    if len(names) < _UNPACKED_MAX and size < _UNPACKED_BYTES_MAX:
        packed = git.run(*pack, "--stdout", stdin=listed).output
        repository.git.run("unpack-objects", "-q", stdin=packed)
        return
    digest = git.line(*pack, str(copy / "pack"), stdin=listed)
    made = copy / f"pack-{digest}.pack"
    made.with_suffix(".idx").unlink()
    repository.git.run("index-pack", str(made))
    for suffix in (".pack", ".idx"):
        target = repository.common / "objects" / "pack" / made.with_suffix(suffix).name
        shutil.move(made.with_suffix(suffix), target)


def _objects(repository: Repository, objects: Path) -> tuple[list[str], int]:
    """Return the names of a copy's own objects, and how many bytes their files have."""
    names, size = list[str](), 0
    for folder in os.scandir(objects):
        if len(folder.name) == len("00") and folder.is_dir(follow_symlinks=False):
            for file in os.scandir(folder.path):
                if _LOOSE.fullmatch(file.name):
                    names.append(folder.name + file.name)
                    size += file.stat(follow_symlinks=False).st_size
    indexes = (objects / "pack").glob("*.idx") if _is_folder(objects / "pack") else ()
    for index in sorted(indexes):
        content = _content(index, _FILE_BYTES_MAX)
        listing = repository.git.run("show-index", stdin=content).output
        names += [line.split(b" ")[1].decode() for line in listing.splitlines()]
        size += index.with_suffix(".pack").lstat().st_size
    return names, size


def _branches(copy: Path) -> dict[str, str]:
    """Return what the branches and tags of a copy name, and its stash, by their whole names."""
    found = dict[str, str]()
    for line in os.fsdecode(_content(copy / "packed-refs", _FILE_BYTES_MAX)).splitlines():
        sha, _, name = line.partition(" ")
        if _ID.fullmatch(sha):
            found[name] = sha
    for inside, _, files in os.walk(copy / "refs"):
        for file in (Path(inside, name) for name in files):
            if (commit := _commit_in(file)) is not None:
                found[file.relative_to(copy).as_posix()] = commit
    return {name: sha for name, sha in found.items() if _is_kept(name) or name == STASH}


def _is_kept(name: str) -> bool:
    kinds = (kind for kind in (HEADS, TAGS) if name.startswith(kind))
    return any(is_branch_name(name.removeprefix(kind)) for kind in kinds)


def _commit_in(file: Path) -> str | None:
    """Return the commit id in the file of a ref, if there is one."""
    text = os.fsdecode(_content(file, _REF_BYTES_MAX)).strip()
    return text if _ID.fullmatch(text) else None


def _is_folder(path: Path) -> bool:
    """Whether a path is a folder, and no link to one: it is in a place where an agent may write."""
    with suppress(OSError):
        return S_ISDIR(path.lstat().st_mode)
    return False


def _content(file: Path, bytes_max: int) -> bytes:
    """Return what is in a plain file that an agent may have replaced; b'' if it is none."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return b""
    with os.fdopen(descriptor, "rb") as opened:
        return opened.read(bytes_max) if S_ISREG(os.fstat(descriptor).st_mode) else b""


def _detach(admin: Path, own: str, branches: Mapping[str, str]) -> None:
    """Check a commit out in place of a branch that only the copy has; the next one attaches it."""
    head = os.fsdecode(_content(admin / "HEAD", _REF_BYTES_MAX)).strip()
    branch = head.removeprefix("ref: ")
    if branch not in (head, own) and branch in branches:
        _write(admin / _CHECKED_OUT, branch)
        _write(admin / "HEAD", f"{branches[branch]}\n")


def _attach(admin: Path, tips: Mapping[str, str]) -> None:
    branch = os.fsdecode(_content(admin / _CHECKED_OUT, _REF_BYTES_MAX))
    (admin / _CHECKED_OUT).unlink(missing_ok=True)
    if (
        branch.startswith(HEADS)
        and _is_kept(branch)
        and tips.get(branch) == _commit_in(admin / "HEAD")
    ):
        _write(admin / "HEAD", f"ref: {branch}\n")


def _write(file: Path, text: str) -> None:
    # An agent may have made a link of it.
    file.unlink(missing_ok=True)
    write_private(file, text)
