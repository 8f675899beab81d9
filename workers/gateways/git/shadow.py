"""Checkpoints of a workspace in a git store of our own; it never uses the user's own repository.

The store is `.interlock/checkpoints` in the workspace, one branch a run. A checkpoint holds every
file, link and folder byte for byte, whatever is ignored, filtered or converted elsewhere; it has
no owner, no times, and of the mode only whether the owner may run a file. What is called `.git`,
at any depth, and the workspace's own `.interlock` are in none.
One call is at work at a time; each has a scratch folder, which the next one clears away if it died.
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
from interlock.workers.gateways.git.errors import FailedError, GitError, Refusal, RefusedError
from interlock.workers.gateways.git.program import COMMAND_S, Git
from interlock.workers.gateways.git.repository import Identity, as_message
from interlock.workers.gateways.git.shadow_restore import Plan, carry_out, entries_of, lay_out, plan
from interlock.workers.gateways.git.shadow_tree import (
    Entry,
    Ground,
    Kind,
    Memory,
    ShadowError,
    digests,
    look,
    read,
    trees,
)

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
# Nothing of the user's counts here: no filter, no attribute, no key to sign with, no template.
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


class UnreadableStoreError(ShadowError):
    """The store is there and cannot be read; that is not the same as empty. Repair it by hand."""

    def __init__(self, store: Path, why: str) -> None:
        super().__init__(
            f"the checkpoints in {store} cannot be read ({why}); "
            "put the folder back from a copy, or move it away to begin without checkpoints"
        )
        self.store = store


class HistoryConflictError(ShadowError, CallError):
    """A branch does not stand where the caller believes. Nothing was changed; look again."""

    def __init__(self, branch: str, *, expected: str | None, actual: str | None) -> None:
        expects = f"be at {expected}" if expected else "not be there"
        stands = f"is at {actual}" if actual else "is not there"
        super().__init__(f"the branch {branch!r} should {expects}, but it {stands}; look again")
        self.branch, self.expected, self.actual = branch, expected, actual


class UnknownCheckpointError(ShadowError, CallError):
    """No branch has such a checkpoint. Name one that is there."""

    def __init__(self, name: str, why: str = "no branch leads to one of that id") -> None:
        super().__init__(f"there is no checkpoint {name!r}: {why}; list those that are there")
        self.name = name


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A commit of a workspace. `left_out` names the fifos, sockets and devices that were there."""

    sha: str
    branch: str
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Desk:
    """What one call at a time has: git under the lock, a scratch folder, and when it began."""

    git: Git
    ground: Ground
    scratch: Path
    memory: Memory
    began_ns: int

    def compare(self, target: Mapping[bytes, Entry]) -> Plan:
        listing = look(self.ground)
        return plan(target, digests(self.ground, listing, self.memory), listing)


@dataclass(frozen=True, slots=True)
class Shadow:
    """The checkpoints of one workspace."""

    workspace: Path
    store: Path
    git: Git

    @classmethod
    def open(cls, workspace: Path, *, command_s: float = COMMAND_S) -> Shadow:
        """Open the store of a workspace, made if it is missing. Raises GitError.

        Each git command may last `command_s`, and so long a call waits for another to end.
        """
        if not workspace.is_dir():
            problem = f"the workspace {workspace} is not a folder"
            raise RefusedError(Refusal.FOLDER_MISSING, problem, "make it, or name another")
        root = workspace.resolve()
        store = root / _FOLDER / _STORE
        shadow = cls(root, store, Git(store, command_s, {**_ISOLATED, "GIT_DIR": str(store)}))
        try:
            shadow._make()
        except OSError as error:
            problem = f"{store} cannot be made ({error.strerror})"
            remedy = "give the user that runs this the right to"
            raise RefusedError(Refusal.NOT_WRITABLE, problem, remedy) from error
        if MAIN not in shadow._branches():
            raise UnreadableStoreError(store, f"it has no branch {MAIN!r}")
        shadow._known()
        return shadow

    def take(self, branch: str, message: str, *, parent: str | None) -> Checkpoint:
        """Make a checkpoint on a branch that stands at `parent`; None: on a branch that begins.

        It is a new commit also if nothing changed. Raises HistoryConflictError if the branch is
        elsewhere, ShadowError for what cannot be read; then the branch stays as it is.
        """
        with self._alone() as desk:
            onto = self._expect(desk.git, branch, parent)
            listing = look(desk.ground)
            entries = digests(desk.ground, listing, desk.memory)
            entries = _store_contents(desk, entries)
            desk.memory.keep(entries, seen_ns=desk.began_ns)
            given, shas = trees(entries)
            said = desk.git.line("mktree", "-z", "--batch", given=given).split()
            assert said == shas, "git and we hash alike"
            text = as_message(message)
            sha = desk.git.line("commit-tree", "-p", onto, "-F", "-", shas[-1], given=text)
            self._move(desk.git, branch, sha, parent)
        return Checkpoint(sha, branch, tuple(sorted(map(os.fsdecode, listing.specials))))

    def rescue(self) -> Checkpoint:
        """Make a checkpoint of the workspace as it is, on a recovery branch of its own."""
        now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        branch = f"recovery/{now}-{secrets.token_hex(4)}"
        return self.take(branch, f"Keep the workspace as it was: {branch}", parent=None)

    def restore(self, sha: str) -> None:
        """Make the workspace equal to a checkpoint. Repeat it if it was interrupted.

        Raises ShadowError: its message says so if the workspace was changed by then.
        """
        with self._alone() as desk:
            target = self._entries(desk.git, sha)
            steps = desk.compare(target)
            if steps.blocked:
                where = repr(os.fsdecode(steps.blocked[0]))
                problem = f"{where} must become a file, but a repository's .git is in it"
                raise ShadowError(f"{problem}; move it away, then repeat")
            if not steps.is_empty:
                files = lay_out(desk.git, desk.scratch, steps.written)
                carry_out(desk.ground, steps, files)

    def differs(self, sha: str) -> bool:
        """Tell whether a restore of this checkpoint would change anything. Raises ShadowError."""
        with self._alone() as desk:
            steps = desk.compare(self._entries(desk.git, sha))
        return bool(steps.blocked) or not steps.is_empty

    def tip(self, branch: str) -> str | None:
        """Return where a branch stands; None if there is no such branch."""
        return self._branches().get(branch)

    def branch_from(self, branch: str, sha: str) -> None:
        """Begin a branch at a checkpoint. Raises HistoryConflictError if it is elsewhere."""
        with self._alone() as desk:
            self._check(sha)
            if self.tip(branch) != sha:
                self._expect(desk.git, branch, None)
                self._move(desk.git, branch, sha, None)

    def set_aside(self, branch: str) -> None:
        """Give a branch that is there another name, `former/...`; what is on it stays known."""
        with self._alone() as desk:
            if (sha := self.tip(branch)) is not None:
                self._move(desk.git, f"former/{branch}-{secrets.token_hex(4)}", sha, None)
                desk.git.run("update-ref", "-d", f"refs/heads/{branch}", sha)

    def has(self, sha: str) -> bool:
        """Tell whether a branch leads to the checkpoint of this whole id."""
        return sha in self._known()

    def message(self, sha: str) -> str:
        """Return what was said of a checkpoint when it was taken."""
        self._check(sha)
        content = self.git.run("cat-file", "commit", sha).output
        return content.partition(b"\n\n")[2].decode().rstrip("\n")

    def history(self, branch: str) -> tuple[str, ...]:
        """Return the checkpoints that a branch leads to, newest first; none if it is not there."""
        found = self.tip(branch)
        return self._commits(found) if found else ()

    def _entries(self, git: Git, sha: str) -> dict[bytes, Entry]:
        self._check(sha)
        return entries_of(git, sha)

    def _check(self, sha: str) -> None:
        if not self.has(sha):
            raise UnknownCheckpointError(sha)

    def _known(self) -> frozenset[str]:
        return frozenset(self._commits("--branches"))

    def _commits(self, since: str) -> tuple[str, ...]:
        # The empty beginning is no checkpoint: to restore it would delete everything.
        said = self._read("rev-list", since, "--not", _HEADS + MAIN)
        return tuple(said.split())

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
        # Of a branch with a torn file git only warns, as if the branch were not there.
        if finished.said:
            raise UnreadableStoreError(self.store, finished.said.splitlines()[0])
        return os.fsdecode(finished.output)

    def _expect(self, git: Git, branch: str, parent: str | None) -> str:
        """Return the commit that the next one on a branch follows."""
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
    def _alone(self) -> Iterator[_Desk]:
        ground = Ground(self.workspace)
        scratch = self.store / _SCRATCH
        with self._locked() as git:
            try:
                shutil.rmtree(scratch, ignore_errors=True)
                # We hold the lock, and so does any git of ours: who made these is dead.
                for lock in (*self.store.glob("*.lock"), *(self.store / "refs").rglob("*.lock")):
                    lock.unlink(missing_ok=True)
                scratch.mkdir()
                memory = Memory.load(self.store / _MEMORY)
                yield _Desk(git, ground, scratch, memory, scratch.stat().st_mtime_ns)
            except OSError as error:
                problem = f"{self.store} cannot be used ({error.strerror})"
                raise ShadowError(f"{problem}; see to that, then repeat") from error
            finally:
                ground.close()
                shutil.rmtree(scratch, ignore_errors=True)

    def _locked(self) -> AbstractContextManager[Git]:
        return self.git.alone(self.store.with_name(f"{_STORE}.lock"))

    def _make(self) -> None:
        """Make the store under another name, then move it: it is there whole or not at all."""
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
            git = locked.at(fresh, GIT_DIR=str(fresh))
            options = ("--bare", "--quiet", "--template=", "--object-format=sha1")
            git.run("init", *options, f"--initial-branch={MAIN}")
            given = as_message("Begin without any file")
            sha = git.line("commit-tree", "-F", "-", git.line("mktree"), given=given)
            git.run("update-ref", _HEADS + MAIN, sha, _NOTHING)
            fresh.rename(self.store)


def _store_contents(desk: _Desk, entries: Mapping[bytes, Entry]) -> dict[bytes, Entry]:
    """Write the contents that the store has not, and return what stands there as it was written."""
    stored = dict(entries)
    known = _present(desk.git, {entry.sha for entry in entries.values() if entry.sha})
    files = (path for path, entry in entries.items() if entry.kind is not Kind.FOLDER)
    for batch in _staged(desk, (path for path in files if entries[path].sha not in known)):
        names = "".join(f"{number}\n" for number in range(len(batch)))
        options = ("-w", "--no-filters", "--stdin-paths")
        said = desk.git.at(desk.scratch).line("hash-object", *options, given=names.encode())
        for sha, (path, entry) in zip(said.split(), batch, strict=True):
            if entry is None:
                del stored[path]
                continue
            assert sha == entry.sha, "git and we hash alike"
            stored[path] = entry
    return stored


def _staged(desk: _Desk, paths: Iterable[bytes]) -> Iterator[list[tuple[bytes, Entry | None]]]:
    """Copy files to numbers in the scratch folder, a batch at a time; None for one that is gone.

    Git hashes the copies: it would follow a link, and a file could change under its hands.
    """
    batch: list[tuple[bytes, Entry | None]] = []
    size = 0
    for path in paths:
        with (desk.scratch / str(len(batch))).open("wb") as copy:
            batch.append((path, read(desk.ground, path, into=copy)))
            size += copy.tell()
        if len(batch) >= STAGED_FILES_MAX or size >= STAGED_BYTES_MAX:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _present(git: Git, shas: set[str]) -> set[str]:
    given = "".join(f"{sha}\n" for sha in shas).encode()
    check = "--batch-check=%(objectname) %(objecttype)"
    lines = git.run("cat-file", check, given=given).output.decode().splitlines()
    return {line.removesuffix(" blob") for line in lines if line.endswith(" blob")}
