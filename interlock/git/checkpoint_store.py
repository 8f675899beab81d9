"""Checkpoints of a workspace, in a git repository beside the user's own.

This store is `.interlock/checkpoints` in the workspace, with one branch a run. A checkpoint has
every file, link and folder byte for byte, also those that git would usually ignore, filter or
convert. It does not keep owners and times, and keeps of a file's mode only whether the owner may
execute it. It contains no `.git`, at any depth, and not the workspace's `.interlock`.
One call runs at a time. Each has a scratch folder; if it dies, the next call deletes the folder.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from interlock.git.checkpoint_files import (
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
from interlock.git.checkpoint_objects import (
    ObjectFolder,
    ObjectKind,
    ObjectWriteError,
    commit_content,
)
from interlock.git.checkpoint_restore import (
    RestorePlan,
    apply,
    entries_of,
    plan,
    write_contents,
)
from interlock.git.errors import FailedError, GitError, Refusal, RefusedError
from interlock.git.program import COMMAND_S, Git
from interlock.git.repository import Identity, as_message
from interlock.kernel.errors import CallError

MAIN = "main"
FOLDER = ".interlock"
STORE = "checkpoints"
_SCRATCH = "scratch"
_MEMORY = "hashes"
_OBJECTS = "objects"
_HEADS = "refs/heads/"
# Each of these is a name that git takes too.
_BRANCH = re.compile(r"\w[\w-]*(/\w[\w-]*)*", re.ASCII)
_NOTHING = "0" * 40
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
    """The tools of one call: git under the lock, the store's objects, and the time of its start."""

    git: Git
    objects: ObjectFolder
    opened: OpenedRoot
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
        Each call on the store raises UnreadableStoreError for damage of what it reads.
        """
        if not root.is_dir():
            problem = f"the workspace {root} is not a folder"
            raise RefusedError(Refusal.FOLDER_MISSING, problem, "make it, or name another")
        root = root.resolve()
        store = root / FOLDER / STORE
        checkpoint_store = cls(
            root, store, Git(store, command_s, {**_ISOLATED, "GIT_DIR": str(store)})
        )
        try:
            checkpoint_store._make()
        except OSError as error:
            problem = f"{store} cannot be made ({error.strerror})"
            remedy = "give the user that runs this the right to make it"
            raise RefusedError(Refusal.NOT_WRITABLE, problem, remedy) from error
        return checkpoint_store

    def take(
        self, branch: str, message: str, *, parent: str | None, start: str | None = None
    ) -> Checkpoint:
        """Make a checkpoint on a branch that is at `parent`; None means a new branch.

        A new branch begins at the checkpoint `start`, or with this one. It is a new commit even if
        nothing changed. Raises HistoryConflictError if the branch is at another commit,
        UnknownCheckpointError for `start`, and CheckpointStoreError for a file that cannot be read;
        then the branch stays as it is.
        """
        with self._session() as session:
            main = self._expect(branch, parent)
            if start:
                self._check(start)
            listing = list_root(session.opened)
            entries = hash_entries(session.opened, listing, session.cache)
            entries = _store_contents(session, entries)
            session.cache.keep(entries, seen_ns=session.began_ns)
            sha = _put_commit(session.objects, entries, parent or start or main, message)
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
                files = write_contents(session.git, session.objects, steps.written)
                apply(session.opened, steps, files)

    def differs(self, sha: str) -> bool:
        """Tell whether a restore would change anything. Raises CheckpointStoreError."""
        with self._session() as session:
            steps = session.compare(self._entries(session.git, sha))
        return bool(steps.blocked) or not steps.is_empty

    def tip(self, branch: str) -> str | None:
        """Return the newest checkpoint of a branch; None if there is no such branch."""
        return self._branches().get(branch)

    def rename_former_branch(self, branch: str) -> None:
        """Rename a branch, if it exists, to `former/...`; its checkpoints can still be restored."""
        with self._session() as session:
            if (sha := self.tip(branch)) is not None:
                former = f"{_HEADS}former/{branch}-{secrets.token_hex(4)}"
                moves = f"create {former} {sha}\ndelete {_HEADS}{branch} {sha}\n"
                session.git.run("update-ref", "--stdin", stdin=moves.encode())

    def missing(self, shas: Iterable[str]) -> list[str]:
        """Return those of these whole ids of checkpoints to which no branch leads.

        It reads every branch and commit, and raises UnreadableStoreError if one is damaged.
        """
        self._branches()  # the list of commits leaves out a branch that names none
        known = self._commits()
        return [sha for sha in shas if sha not in known]

    def _entries(self, git: Git, sha: str) -> dict[bytes, TreeEntry]:
        self._check(sha)
        return entries_of(git, sha)

    def _check(self, sha: str) -> None:
        if sha not in self._commits():
            raise UnknownCheckpointError(sha)

    def _commits(self) -> frozenset[str]:
        # The empty first commit is not a checkpoint: to restore it would delete everything.
        return frozenset(self._read("rev-list", "--branches", "--not", _HEADS + MAIN).split())

    def _branches(self) -> dict[str, str]:
        found = {}
        form = "--format=%(objecttype) %(objectname) %(refname)"
        for line in self._read("for-each-ref", form, _HEADS).splitlines():
            kind, sha, ref = line.split(" ", 2)
            if kind != "commit":
                raise UnreadableStoreError(self.store, f"{ref} is a {kind}")
            found[ref.removeprefix(_HEADS)] = sha
        if MAIN not in found:
            raise UnreadableStoreError(self.store, f"it has no branch {MAIN!r}")
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

    def _expect(self, branch: str, parent: str | None) -> str:
        """Return the empty first commit if a branch is at `parent`; else raise an error."""
        if branch == MAIN or not _BRANCH.fullmatch(branch):
            problem = f"{branch!r} cannot be the name of a branch of checkpoints"
            raise RefusedError(Refusal.BRANCH_NAME, problem, "give another name")
        branches = self._branches()
        if (actual := branches.get(branch)) != parent:
            raise HistoryConflictError(branch, expected=parent, actual=actual)
        return branches[MAIN]

    def _move(self, git: Git, branch: str, sha: str, parent: str | None) -> None:
        try:
            git.run("update-ref", _HEADS + branch, sha, parent or _NOTHING)
        except GitError:
            actual = self.tip(branch)
            if actual == sha:
                return  # Git moved the branch, and was ended only then.
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
                objects = ObjectFolder(self.store / _OBJECTS, scratch)
                yield _Session(git, objects, opened, cache, scratch.stat().st_mtime_ns)
            except OSError as error:
                use = "written" if isinstance(error, ObjectWriteError) else "used"
                problem = f"{self.store} cannot be {use} ({error.strerror})"
                raise CheckpointStoreError(f"{problem}; correct that, then repeat") from error
            finally:
                opened.close()
                shutil.rmtree(scratch, ignore_errors=True)

    def _locked(self) -> AbstractContextManager[Git]:
        return self.git.locked(self.store.with_name(f"{STORE}.lock"))

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
        with self._locked():
            if self.store.exists():
                return
            fresh = self.store.with_name(f"{STORE}.new")
            shutil.rmtree(fresh, ignore_errors=True)
            _make_repository(fresh)
            fresh.rename(self.store)


def _make_repository(folder: Path) -> None:
    """Make a bare repository whose branch `main` has the empty first commit."""
    head = folder / _HEADS / MAIN
    head.parent.mkdir(parents=True)
    first = _put_commit(ObjectFolder(folder / _OBJECTS, folder), {}, None, "Begin without any file")
    head.write_text(f"{first}\n")
    (folder / "HEAD").write_text(f"ref: {_HEADS}{MAIN}\n")
    (folder / "config").write_text("[core]\n\trepositoryformatversion = 0\n\tbare = true\n")


def _put_commit(
    objects: ObjectFolder, entries: Mapping[bytes, TreeEntry], parent: str | None, message: str
) -> str:
    """Write all folders of a checkpoint and its commit, and return the commit's id."""
    *_, root = (objects.put(ObjectKind.TREE, content) for content in trees(entries))
    text, now = as_message(message), int(time.time())
    commit = commit_content(root, parent, text, identity=_IDENTITY, at_s=now)
    return objects.put(ObjectKind.COMMIT, commit)


def _store_contents(
    session: _Session, entries: Mapping[bytes, TreeEntry]
) -> dict[bytes, TreeEntry]:
    """Write the contents that the store lacks, and return the entries as they were written."""
    stored = dict(entries)
    for path, entry in entries.items():
        if entry.kind is EntryKind.FOLDER or (entry.sha and session.objects.has(entry.sha)):
            continue
        with session.objects.draft() as draft:
            # The file may have changed since its hash was taken.
            if written := read_entry(session.opened, path, into=draft):
                session.objects.keep(draft, written.sha)
                stored[path] = written
            else:
                del stored[path]
    return stored
