"""Checkpoints of a workspace, in a git repository beside the user's own.

This store is `.interlock/checkpoints` in the workspace, with one branch a run. A checkpoint has
every file, link and folder byte for byte, also those that git would usually ignore, filter or
convert. It does not keep owners and times, and keeps of a file's mode only whether the owner may
execute it. It contains no `.git`, at any depth, and not the workspace's `.interlock`.
One call runs at a time. Each has a scratch folder; if it dies, the next call deletes the folder.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from interlock.kernel.errors import CallError
from interlock.workers.gateways.git.checkpoint_files import (
    CheckpointStoreError,
    EntryKind,
    HashCache,
    OpenedRoot,
    TreeEntry,
    hash_entries,
    list_root,
    read_entry,
    trees,
)
from interlock.workers.gateways.git.checkpoint_restore import (
    RestorePlan,
    apply,
    entries_of,
    plan,
    write_contents,
)
from interlock.workers.gateways.git.errors import FailedError, GitError, Refusal, RefusedError
from interlock.workers.gateways.git.program import COMMAND_S, Git
from interlock.workers.gateways.git.repository import Identity, as_message

MAIN = "main"
PREFIX_LENGTH_MIN = 4
STAGED_FILES_MAX = 2_000
STAGED_BYTES_MAX = 256 * 1024 * 1024
_FOLDER = ".interlock"
_STORE = "checkpoints"
_SCRATCH = "scratch"
_MEMORY = "hashes"
_HEADS = "refs/heads/"
_NOTHING = "0" * 40
_SHOWN = 8
_IDENTITY = Identity("Interlock", "checkpoints@interlock.invalid")
# No configuration of the user is used: no filter, no attribute, no signing key, no template.
_ISOLATED: Mapping[str, str] = {
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_CONFIG_COUNT": "0",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_NO_REPLACE_OBJECTS": "1",
    "HOME": os.devnull,
    "XDG_CONFIG_HOME": os.devnull,
    **_IDENTITY.variables(),
}


class UnreadableStoreError(CheckpointStoreError):
    """The store exists but cannot be read, so it must not be treated as empty. Repair it."""

    def __init__(self, store: Path, why: str) -> None:
        super().__init__(
            f"the checkpoints in {store} cannot be read ({why}); "
            "put the folder back from a copy, or move it away to begin without checkpoints"
        )
        self.store = store


class HistoryConflictError(CheckpointStoreError, CallError):
    """A branch is not at the commit that the caller expects. Nothing was changed; read it again."""

    def __init__(self, branch: str, *, expected: str | None, actual: str | None) -> None:
        wanted = f"be at {expected}" if expected else "not exist"
        found = f"is at {actual}" if actual else "does not exist"
        super().__init__(f"the branch {branch!r} should {wanted}, but it {found}; read it again")
        self.branch, self.expected, self.actual = branch, expected, actual


class UnknownCheckpointError(CheckpointStoreError, CallError):
    """No branch has such a checkpoint. Name one that exists."""

    def __init__(self, name: str, why: str = "no branch has one with that id") -> None:
        super().__init__(f"there is no checkpoint {name!r}: {why}; list those that exist")
        self.name = name


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A commit of a workspace. `left_out` names the fifos, sockets and devices that it lacks."""

    sha: str
    branch: str
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Session:
    """The tools of one call: git under the lock, a scratch folder, and the time of its start."""

    git: Git
    opened: OpenedRoot
    scratch: Path
    cache: HashCache
    began_ns: int

    def compare(self, target: Mapping[bytes, TreeEntry]) -> RestorePlan:
        listing = list_root(self.opened)
        return plan(target, hash_entries(self.opened, listing, self.cache), listing)


@dataclass(frozen=True, slots=True)
class CheckpointStore:
    """The checkpoints of one workspace; `root` is its folder."""

    root: Path
    store: Path
    git: Git

    @classmethod
    def open(cls, root: Path, *, command_s: float = COMMAND_S) -> CheckpointStore:
        """Open the store of a workspace; make it if it is missing. Raises GitError.

        Each git command may last `command_s`; a call waits that long for another call to end.
        """
        if not root.is_dir():
            problem = f"the workspace {root} is not a folder"
            raise RefusedError(Refusal.FOLDER_MISSING, problem, "make it, or name another")
        root = root.resolve()
        store = root / _FOLDER / _STORE
        checkpoint_store = cls(
            root, store, Git(store, command_s, {**_ISOLATED, "GIT_DIR": str(store)})
        )
        try:
            checkpoint_store._make()
        except OSError as error:
            problem = f"{store} cannot be made ({error.strerror})"
            remedy = "give the user that runs this the right to make it"
            raise RefusedError(Refusal.NOT_WRITABLE, problem, remedy) from error
        if MAIN not in checkpoint_store._branches():
            raise UnreadableStoreError(store, f"it has no branch {MAIN!r}")
        checkpoint_store._known()
        return checkpoint_store

    def take(self, branch: str, message: str, *, parent: str | None) -> Checkpoint:
        """Make a checkpoint on a branch that is at `parent`; None means a new branch.

        It is a new commit even if nothing changed. Raises HistoryConflictError if the branch is at
        another commit, CheckpointStoreError for a file that cannot be read; then the branch stays
        as it is.
        """
        with self._session() as session:
            onto = self._expect(session.git, branch, parent)
            listing = list_root(session.opened)
            entries = hash_entries(session.opened, listing, session.cache)
            entries = _store_contents(session, entries)
            session.cache.keep(entries, seen_ns=session.began_ns)
            stdin, shas = trees(entries)
            made = session.git.line("mktree", "-z", "--batch", stdin=stdin).split()
            assert made == shas, "git hashes as we do"
            text = as_message(message)
            sha = session.git.line("commit-tree", "-p", onto, "-F", "-", shas[-1], stdin=text)
            self._move(session.git, branch, sha, parent)
        return Checkpoint(sha, branch, tuple(sorted(map(os.fsdecode, listing.specials))))

    def rescue(self) -> Checkpoint:
        """Make a checkpoint of the workspace as it is, on a new recovery branch."""
        now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        branch = f"recovery/{now}-{secrets.token_hex(4)}"
        return self.take(branch, f"Keep the workspace as it was: {branch}", parent=None)

    def restore(self, sha: str) -> None:
        """Make the workspace equal to a checkpoint. Repeat it if it was interrupted.

        Raises CheckpointStoreError; its message says whether the workspace was changed by then.
        """
        with self._session() as session:
            target = self._entries(session.git, sha)
            steps = session.compare(target)
            if steps.blocked:
                where = repr(os.fsdecode(steps.blocked[0]))
                problem = f"{where} must become a file, but a repository's .git is in it"
                raise CheckpointStoreError(f"{problem}; move it away, then repeat")
            if not steps.is_empty:
                files = write_contents(session.git, session.scratch, steps.written)
                apply(session.opened, steps, files)

    def differs(self, sha: str) -> bool:
        """Tell whether a restore would change anything. Raises CheckpointStoreError."""
        with self._session() as session:
            steps = session.compare(self._entries(session.git, sha))
        return bool(steps.blocked) or not steps.is_empty

    def tip(self, branch: str) -> str | None:
        """Return the newest checkpoint of a branch; None if there is no such branch."""
        return self._branches().get(branch)

    def branch_from(self, branch: str, sha: str) -> None:
        """Start a branch at a checkpoint. Raises HistoryConflictError if it is at another one."""
        with self._session() as session:
            self._check(sha)
            if self.tip(branch) != sha:
                self._expect(session.git, branch, None)
                self._move(session.git, branch, sha, None)

    def rename_former_branch(self, branch: str) -> None:
        """Rename a branch, if it exists, to `former/...`; its checkpoints can still be restored."""
        with self._session() as session:
            if (sha := self.tip(branch)) is not None:
                self._move(session.git, f"former/{branch}-{secrets.token_hex(4)}", sha, None)
                session.git.run("update-ref", "-d", f"refs/heads/{branch}", sha)

    def has(self, sha: str) -> bool:
        """Tell whether some branch has the checkpoint of this whole id."""
        return sha in self._known()

    def message(self, sha: str) -> str:
        """Return the message of a checkpoint."""
        self._check(sha)
        content = self.git.run("cat-file", "commit", sha).output
        return content.partition(b"\n\n")[2].decode().rstrip("\n")

    def history(self, branch: str) -> tuple[str, ...]:
        """Return the checkpoints of a branch, newest first; none if it does not exist."""
        found = self.tip(branch)
        return self._commits(found) if found else ()

    def _entries(self, git: Git, sha: str) -> dict[bytes, TreeEntry]:
        self._check(sha)
        return entries_of(git, sha)

    def _check(self, sha: str) -> None:
        if not self.has(sha):
            raise UnknownCheckpointError(sha)

    def _known(self) -> frozenset[str]:
        return frozenset(self._commits("--branches"))

    def _commits(self, since: str) -> tuple[str, ...]:
        # The empty first commit is not a checkpoint: to restore it would delete everything.
        commits = self._read("rev-list", since, "--not", _HEADS + MAIN)
        return tuple(commits.split())

    def _branches(self) -> dict[str, str]:
        found = {}
        form = "--format=%(objecttype) %(objectname) %(refname)"
        for line in self._read("for-each-ref", form, _HEADS).splitlines():
            kind, sha, ref = line.split(" ", 2)
            if kind != "commit":
                raise UnreadableStoreError(self.store, f"{ref} is a {kind}")
            found[ref.removeprefix(_HEADS)] = sha
        return found

    def _read(self, *arguments: str) -> str:
        try:
            finished = self.git.run(*arguments)
        except (FailedError, RefusedError) as error:
            raise UnreadableStoreError(self.store, str(error)) from error
        # For a branch with a damaged file git only warns, as if the branch did not exist.
        if finished.stderr:
            raise UnreadableStoreError(self.store, finished.stderr.splitlines()[0])
        return os.fsdecode(finished.output)

    def _expect(self, git: Git, branch: str, parent: str | None) -> str:
        """Return the commit that the next one on a branch follows. Raises HistoryConflictError."""
        name = git.run("check-ref-format", _HEADS + branch, allowed=(0, 1))
        if name.exit_code or branch == MAIN:
            problem = f"{branch!r} cannot be the name of a branch of checkpoints"
            raise RefusedError(Refusal.BRANCH_NAME, problem, "give another name")
        branches = self._branches()
        actual = branches.get(branch)
        if actual != parent:
            raise HistoryConflictError(branch, expected=parent, actual=actual)
        return actual or branches[MAIN]

    def _move(self, git: Git, branch: str, sha: str, parent: str | None) -> None:
        try:
            git.run("update-ref", _HEADS + branch, sha, parent or _NOTHING)
        except GitError:
            actual = self.tip(branch)
            if actual == parent:
                raise
            raise HistoryConflictError(branch, expected=parent, actual=actual) from None

    @contextmanager
    def _session(self) -> Iterator[_Session]:
        opened = OpenedRoot(self.root)
        scratch = self.store / _SCRATCH
        with self._locked() as git:
            try:
                shutil.rmtree(scratch, ignore_errors=True)
                # Interlock runs git only under the lock, so the processes that made these are dead.
                for lock in (*self.store.glob("*.lock"), *(self.store / "refs").rglob("*.lock")):
                    lock.unlink(missing_ok=True)
                scratch.mkdir()
                cache = HashCache.load(self.store / _MEMORY)
                yield _Session(git, opened, scratch, cache, scratch.stat().st_mtime_ns)
            except OSError as error:
                problem = f"{self.store} cannot be used ({error.strerror})"
                raise CheckpointStoreError(f"{problem}; correct that, then repeat") from error
            finally:
                opened.close()
                shutil.rmtree(scratch, ignore_errors=True)

    def _locked(self) -> AbstractContextManager[Git]:
        return self.git.locked(self.store.with_name(f"{_STORE}.lock"))

    def _make(self) -> None:
        """Make the store under another name and rename it, so that no incomplete one is found."""
        folder = self.store.parent
        for path in (folder, self.store):
            if path.is_symlink() or (path.exists() and not path.is_dir()):
                raise UnreadableStoreError(self.store, f"{path} is not a folder")
        if self.store.exists():
            return
        folder.mkdir(exist_ok=True)
        ignored = folder / ".gitignore"
        if not ignored.exists():
            ignored.write_text("*\n")
        with self._locked() as locked:
            if self.store.exists():
                return
            fresh = self.store.with_name(f"{_STORE}.new")
            shutil.rmtree(fresh, ignore_errors=True)
            fresh.mkdir()
            git = locked.in_folder(fresh, GIT_DIR=str(fresh))
            options = ("--bare", "--quiet", "--template=", "--object-format=sha1")
            git.run("init", *options, f"--initial-branch={MAIN}")
            stdin = as_message("Begin without any file")
            sha = git.line("commit-tree", "-F", "-", git.line("mktree"), stdin=stdin)
            git.run("update-ref", _HEADS + MAIN, sha, _NOTHING)
            fresh.rename(self.store)


def _store_contents(
    session: _Session, entries: Mapping[bytes, TreeEntry]
) -> dict[bytes, TreeEntry]:
    """Write the contents that the store lacks, and return the entries as they were written."""
    stored = dict(entries)
    known = _present(session.git, {entry.sha for entry in entries.values() if entry.sha})
    files = (path for path, entry in entries.items() if entry.kind is not EntryKind.FOLDER)
    for batch in _staged(session, (path for path in files if entries[path].sha not in known)):
        names = "".join(f"{number}\n" for number in range(len(batch)))
        options = ("-w", "--no-filters", "--stdin-paths")
        made = session.git.in_folder(session.scratch).line(
            "hash-object", *options, stdin=names.encode()
        )
        for sha, (path, entry) in zip(made.split(), batch, strict=True):
            if entry is None:
                del stored[path]
                continue
            assert sha == entry.sha, "git hashes as we do"
            stored[path] = entry
    return stored


def _staged(
    session: _Session, paths: Iterable[bytes]
) -> Iterator[list[tuple[bytes, TreeEntry | None]]]:
    """Copy files to numbered files in the scratch folder, in batches; None for one that is gone.

    Git hashes the copies: it would follow a link, and a file could change while git reads it.
    """
    batch: list[tuple[bytes, TreeEntry | None]] = []
    size = 0
    for path in paths:
        with (session.scratch / str(len(batch))).open("wb") as copy:
            batch.append((path, read_entry(session.opened, path, into=copy)))
            size += copy.tell()
        if len(batch) >= STAGED_FILES_MAX or size >= STAGED_BYTES_MAX:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _present(git: Git, shas: set[str]) -> set[str]:
    stdin = "".join(f"{sha}\n" for sha in shas).encode()
    check = "--batch-check=%(objectname) %(objecttype)"
    lines = git.run("cat-file", check, stdin=stdin).output.decode().splitlines()
    return {line.removesuffix(" blob") for line in lines if line.endswith(" blob")}
