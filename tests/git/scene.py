"""Small real repositories, always the same, and a look at all that their user could lose."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

from interlock.git.branch import contains, head, mark_ref
from interlock.git.changes import commit_all
from interlock.git.checkpoint_objects import ObjectFolder, ObjectKind
from interlock.git.errors import Refusal, RefusedError
from interlock.git.refs import read_refs
from interlock.git.repository import Identity, Repository
from interlock.git.worktree import Worktree, add_worktree

AGENT = Identity("Ann Agent", "ann@example.org")
USER = {
    "GIT_AUTHOR_NAME": "Ursula User",
    "GIT_AUTHOR_EMAIL": "ursula@example.org",
    "GIT_AUTHOR_DATE": "2026-03-10T09:00:00Z",
    "GIT_COMMITTER_NAME": "Ursula User",
    "GIT_COMMITTER_EMAIL": "ursula@example.org",
    "GIT_COMMITTER_DATE": "2026-03-10T09:00:00Z",
}
REAL_GIT = shutil.which("git") or "git"


def git(folder: Path, *arguments: str, fails: bool = False) -> str:
    """Do what the user does on a command line."""
    command = [REAL_GIT, *arguments]
    finished = subprocess.run(
        command, cwd=folder, env={**os.environ, **USER}, capture_output=True, check=False
    )
    assert (finished.returncode != 0) == fails, finished.stderr.decode()
    return finished.stdout.decode(errors="surrogateescape").removesuffix("\n")


def write(folder: Path, **files: str) -> None:
    """Write files; two underscores stand for a dot."""
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)


def commit(folder: Path, subject: str, **files: str) -> str:
    """Write files and commit them as the user."""
    write(folder, **files)
    git(folder, "add", "-A")
    said = git(folder, "-c", "core.abbrev=no", "commit", "--allow-empty", "-m", subject)
    return said.partition("]")[0].rpartition(" ")[2]


def make_repository(folder: Path) -> Path:
    """Make a repository with a branch main of three files and some ignored ones."""
    return Path(shutil.copytree(_original(), folder))


def open_copy(folder: Path) -> Repository:
    """Open such a repository without asking git again what it said of the original."""
    opened = _opened()
    return replace(opened, root=folder, common=folder / ".git", git=opened.git.in_folder(folder))


@cache
def _opened() -> Repository:
    return Repository.open(_original())


def begin_original() -> Path:
    """Begin a repository that the tests of this process copy: without a commit, with few files."""
    folder = Path(tempfile.mkdtemp()).resolve()
    git(folder, "init", "-q", "-b", "main", "--template=")
    (folder / ".git" / "info").mkdir()
    # Git compares size and time of a file, which a copy keeps, and not which file it is.
    git(folder, "config", "core.checkStat", "minimal")
    return folder


@cache
def _original() -> Path:
    folder = begin_original()
    commit(folder, "first", a__txt="a\n", b__txt="b\n", c__txt="c\n", __gitignore="*.env\n")
    git(folder, "repack", "-a", "-d", "-n", "-q")
    return folder


def a_task(repository: Repository, name: str, **files: str) -> Worktree:
    """Add a worktree for a task, and commit files in it."""
    folder = repository.root.parent / "trees" / name
    tree = add_worktree(repository, branch=f"interlock/{name}", folder=folder, base="main")
    write(folder, **files)
    if files:
        assert commit_all(repository, tree, message=f"do {name}", identity=AGENT)
    return tree


def copy_task(repository: Repository) -> Worktree:
    """Add the worktree of a task `t` to a repository that is an unchanged copy of the original.

    The worktree is a copy of one that `a_task` made. Two files and the mark name folders, and are
    written again with the new ones.
    """
    made, mark = _original_task()
    origin, target = made.folder.parents[1], repository.root.parent
    parts = (".git/worktrees", ".git/refs", ".git/logs")
    for part in ("trees", *(f"repository/{name}" for name in parts)):
        shutil.copytree(origin / part, target / part, dirs_exist_ok=True)
    tree = replace(made, folder=target / "trees" / "t")
    admin = repository.common / "worktrees" / "t"
    (admin / "gitdir").write_text(f"{tree.folder}/.git\n")
    (tree.folder / ".git").write_text(f"gitdir: {admin}\n")
    objects = ObjectFolder(repository.common / "objects", scratch=repository.common)
    content = mark.replace(os.fsencode(origin), os.fsencode(target))
    sha = objects.put(ObjectKind.BLOB, content)
    (repository.common / mark_ref(tree.branch)).write_text(f"{sha}\n")
    return tree


@cache
def _original_task() -> tuple[Worktree, bytes]:
    """Make a repository with a task; return its worktree and the content of its mark."""
    folder = Path(tempfile.mkdtemp()).resolve()
    repository = open_copy(make_repository(folder / "repository"))
    tree = a_task(repository, "t")
    ref = mark_ref(tree.branch)
    return tree, read_refs(repository, ref)[ref].content


def a_branch(repository: Repository, name: str, **files: str | None) -> str:
    """Make a branch as a task leaves it, without its worktree: a commit after main.

    It writes these files, and deletes those whose text is None. Git needs one process for it.
    """
    who, branch = f"committer {AGENT.name} <{AGENT.email}> 0 +0000", f"interlock/{name}"
    lines = [f"commit refs/heads/{branch}", who, "data 0", "from refs/heads/main^0"]
    for file, text in files.items():
        path = json.dumps(file.replace("__", "."), ensure_ascii=False)
        lines += (
            [f"D {path}"]
            if text is None
            else [f"M 100644 inline {path}", f"data {len(text.encode())}", text]
        )
    options = ("-c", "fastimport.unpackLimit=0", "fast-import", "--quiet")
    repository.git.run(*options, stdin="\n".join([*lines, ""]).encode())
    return branch


def tip_of(repository: Repository, branch: str = "main") -> str:
    """Return where a branch stands."""
    found = head(repository, branch)
    assert found is not None
    return found


def in_main(repository: Repository, branch: str) -> bool:
    """Return whether main contains everything on a branch."""
    return contains(repository, tip_of(repository), tip_of(repository, branch))


def shown(repository: Repository, path: str, branch: str = "main") -> str:
    """Return the content of a file on a branch."""
    return git(repository.root, "show", f"{branch}:{path}")


def work_of_the_user(root: Path) -> dict[str, bytes]:
    """Leave each kind of uncommitted work in a repository and return the look at it."""
    write(root, a__txt="stashed\n")
    git(root, "stash", "-q")
    write(root, a__txt="changed\n", b__txt="staged\n", untracked__txt="u\n", secret__env="s\n")
    git(root, "add", "b.txt")
    (root / "c.txt").unlink()
    return user_files(root)


def user_files(root: Path) -> dict[str, bytes]:
    """Return all that a user could lose: each file, the index, HEAD and the stash."""
    found = {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.relative_to(root).parts[0] != ".git"
    }
    for name in ("index", "HEAD", "refs/stash", "logs/refs/stash"):
        file = root / ".git" / name
        found[f".git/{name}"] = file.read_bytes() if file.exists() else b""
    return found


def locks(root: Path) -> list[Path]:
    """Return the lock files that a git left in a repository."""
    return sorted((root / ".git").rglob("*.lock"))


def assert_refused(refusal: Refusal, error: RefusedError, *words: object) -> None:
    """Check that a refusal is one sentence of its kind with these words in it."""
    assert error.refusal is refusal
    for word in words:
        assert str(word) in str(error)
    assert "\n" not in str(error)
    assert "; " in str(error), "what is wrong, then what to do"
