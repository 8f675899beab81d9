"""A workspace as a checkpoint sees it: what stands where, and the hash of it; it only reads.

Paths are bytes, relative to the workspace, because a file name need not be text. No link is ever
followed: each folder is opened from the one above it.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import IO

from interlock.workers.files.atomic import replace_bytes
from interlock.workers.gateways.git.errors import GitError

OWN = b".interlock"
REPOSITORY = b".git"
# Two writes within one tick of a file system's clock look the same; the coarsest tick is 2 s.
RACY_NS = 2_000_000_000
TRIES_MAX = 5
_CHUNK_BYTES = 1024 * 1024
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A fifo that has taken the place of a file must not make us wait for who writes to it.
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class ShadowError(GitError):
    """A checkpoint cannot be taken, read or restored. Do what the message says, then repeat."""


class Kind(StrEnum):
    """What can stand at a path, as git writes its mode."""

    FILE = "100644"
    FOLDER = "040000"
    LINK = "120000"
    PROGRAM = "100755"


@dataclass(frozen=True, slots=True)
class Stamp:
    """What changes with a file's content, times in nanoseconds."""

    modified_ns: int
    changed_ns: int
    size: int
    inode: int


@dataclass(frozen=True, slots=True)
class Entry:
    """What stands at a path. The hash of a folder, and of what may not be read, is empty."""

    kind: Kind
    sha: str = ""
    stamp: Stamp | None = field(default=None, compare=False)


@dataclass(slots=True)
class Listing:
    """The paths of a workspace; of folders the outer comes first, the workspace is not there."""

    files: list[bytes] = field(default_factory=list)
    folders: list[bytes] = field(default_factory=list)
    repositories: list[bytes] = field(default_factory=list)
    specials: list[bytes] = field(default_factory=list)


@dataclass(slots=True)
class Ground:
    """The way to every folder of a workspace; it keeps the last one open."""

    root: Path
    _path: bytes | None = None
    _descriptor: int = -1

    def close(self) -> None:
        """Let go of the folder that is open."""
        if self._path is not None:
            os.close(self._descriptor)
            self._path = None

    def folder(self, path: bytes) -> int:
        """Return the descriptor of a folder, good until the next call. Raises OSError."""
        if path != self._path:
            self.close()
            self._descriptor = self._opened(path)
            self._path = path
        return self._descriptor

    def _opened(self, path: bytes) -> int:
        descriptor = os.open(self.root, _FOLDER_FLAGS)
        for part in path.split(b"/") if path else ():
            outer = descriptor
            try:
                descriptor = os.open(part, _FOLDER_FLAGS, dir_fd=outer)
            finally:
                os.close(outer)
        return descriptor


@dataclass(frozen=True, slots=True)
class Memory:
    """The hashes of files as they were last seen; what it lost or cannot read is hashed again."""

    file: Path
    known: Mapping[bytes, tuple[Stamp, str]]

    @classmethod
    def load(cls, file: Path) -> Memory:
        """Read what an earlier checkpoint remembered."""
        known = {}
        with suppress(OSError, ValueError, TypeError):
            digest, _, content = file.read_bytes().partition(b"\n")
            if digest.decode() == hashlib.sha256(content).hexdigest():
                for path, (sha, *stamp) in json.loads(content).items():
                    known[os.fsencode(path)] = (Stamp(*stamp), sha)
        return cls(file, known)

    def sha(self, path: bytes, stamp: Stamp) -> str | None:
        """Return the hash of a file that has not changed since."""
        then, sha = self.known.get(path, (None, None))
        return sha if then == stamp else None

    def keep(self, entries: Mapping[bytes, Entry], *, seen_ns: int) -> None:
        """Remember all files that nobody can have changed since without a trace.

        `seen_ns` is the time, by the clock of the file system, before the first one was read.
        """
        content = {
            os.fsdecode(path): (
                entry.sha,
                entry.stamp.modified_ns,
                entry.stamp.changed_ns,
                entry.stamp.size,
                entry.stamp.inode,
            )
            for path, entry in entries.items()
            if entry.stamp
            and max(entry.stamp.modified_ns, entry.stamp.changed_ns) + RACY_NS <= seen_ns
        }
        text = json.dumps(content).encode()
        replace_bytes(self.file, hashlib.sha256(text).hexdigest().encode() + b"\n" + text)


def look(ground: Ground) -> Listing:
    """Return all that stands in a workspace, without what is git's or ours. Raises ShadowError."""
    listing = Listing()
    waiting = [b""]
    while waiting:
        path = waiting.pop()
        try:
            with _names(ground, path), os.scandir(ground.folder(path)) as found:
                inside = sorted(found, key=lambda one: one.name)
                if path:
                    listing.folders.append(path)
                for one in inside:
                    _sort_in(listing, waiting, one, path)
        except (FileNotFoundError, NotADirectoryError):
            if not path:
                raise ShadowError(f"the folder {ground.root} is not there; make it again") from None
    return listing


def digests(ground: Ground, listing: Listing, memory: Memory) -> dict[bytes, Entry]:
    """Return what stands at each path; what went away since is not there. Raises ShadowError."""
    entries = {path: Entry(Kind.FOLDER) for path in listing.folders}
    for path in listing.files:
        if entry := read(ground, path, memory=memory):
            entries[path] = entry
    return entries


def read(
    ground: Ground, path: bytes, *, memory: Memory | None = None, into: IO[bytes] | None = None
) -> Entry | None:
    """Return a file or link with its hash, and copy its content; None if it is there no more.

    Without a copy, a file that may not be read has an empty hash. Raises ShadowError.
    """
    outer, _, name = path.rpartition(b"/")
    gone = False
    for _ in range(TRIES_MAX):
        try:
            with _names(ground, path):
                return _read_once(ground.folder(outer), name, path, memory, into)
        except FileNotFoundError:
            return None
        except NotADirectoryError:
            gone = True
        except _ChangedError:
            gone = False
        except ShadowError as error:
            if into is None and isinstance(error.__cause__, PermissionError):
                return Entry(Kind.FILE)
            raise
    if gone:
        return None
    where = shown(ground, path)
    raise ShadowError(f"{where} changes whenever it is read; stop what writes to it, then repeat")


class _ChangedError(Exception):
    """What was read is not what stands there now. Read it again."""


def _read_once(
    folder: int, name: bytes, path: bytes, memory: Memory | None, into: IO[bytes] | None
) -> Entry | None:
    if into:
        into.seek(0)
        into.truncate()
    state = os.lstat(name, dir_fd=folder)
    if stat.S_ISLNK(state.st_mode):
        target = os.readlink(name, dir_fd=folder)
        if into:
            into.write(target)
        return Entry(Kind.LINK, hash_bytes(target))
    if not stat.S_ISREG(state.st_mode):
        return None
    kind = Kind.PROGRAM if state.st_mode & stat.S_IXUSR else Kind.FILE
    if memory and (sha := memory.sha(path, _stamp(state))):
        return Entry(kind, sha, _stamp(state))
    with os.fdopen(os.open(name, _FILE_FLAGS, dir_fd=folder), "rb", buffering=0) as source:
        if _stamp(os.fstat(source.fileno())) != _stamp(state):
            raise _ChangedError
        content = hash_content(source, state.st_size, into)
        if content is None or _stamp(os.fstat(source.fileno())) != _stamp(state):
            raise _ChangedError
    return Entry(kind, content, _stamp(state))


def hash_bytes(content: bytes) -> str:
    """Return the hash that git gives a content."""
    head = b"blob %d\0" % len(content)
    return hashlib.sha1(head + content, usedforsecurity=False).hexdigest()


def hash_content(source: IO[bytes], size: int, into: IO[bytes] | None = None) -> str | None:
    """Return the hash of a file that has this size, and copy it; None if it has another."""
    digest = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    left = size
    while chunk := source.read(_CHUNK_BYTES):
        digest.update(chunk)
        left -= len(chunk)
        if left < 0:
            return None
        if into:
            into.write(chunk)
    return digest.hexdigest() if left == 0 else None


def trees(entries: Mapping[bytes, Entry]) -> tuple[bytes, list[str]]:
    """Return the lines from which `git mktree -z --batch` makes each folder, and their hashes.

    The workspace itself is the last. An empty folder is a tree too; git's index could hold none.
    """
    inside: dict[bytes, list[tuple[bytes, Kind, str]]] = {b"": []}
    inside |= {path: [] for path, entry in entries.items() if entry.kind is Kind.FOLDER}
    for path, entry in entries.items():
        if entry.kind is not Kind.FOLDER:
            outer, _, name = path.rpartition(b"/")
            inside[outer].append((name, entry.kind, entry.sha))
    lines, shas = [], []
    for folder in sorted(inside, key=_depth, reverse=True):
        ordered = sorted(inside[folder], key=_git_order)
        lines += [*(_tree_line(*one) for one in ordered), b"\0"]
        shas.append(_tree_hash(ordered))
        if folder:
            outer, _, name = folder.rpartition(b"/")
            inside[outer].append((name, Kind.FOLDER, shas[-1]))
    return b"".join(lines), shas


def _depth(folder: bytes) -> int:
    return folder.count(b"/") + 1 if folder else 0


def _git_order(one: tuple[bytes, Kind, str]) -> bytes:
    name, kind, _ = one
    return name + b"/" if kind is Kind.FOLDER else name


def _tree_line(name: bytes, kind: Kind, sha: str) -> bytes:
    what = "tree" if kind is Kind.FOLDER else "blob"
    return f"{kind.value} {what} {sha}\t".encode() + name + b"\0"


def _tree_hash(ordered: list[tuple[bytes, Kind, str]]) -> str:
    content = b"".join(
        kind.value.lstrip("0").encode() + b" " + name + b"\0" + bytes.fromhex(sha)
        for name, kind, sha in ordered
    )
    head = b"tree %d\0" % len(content)
    return hashlib.sha1(head + content, usedforsecurity=False).hexdigest()


def _sort_in(listing: Listing, waiting: list[bytes], one: os.DirEntry[str], folder: bytes) -> None:
    name = os.fsencode(one.name)
    path = folder + b"/" + name if folder else name
    if name == REPOSITORY:
        listing.repositories.append(path)
    elif path == OWN:
        return
    elif one.is_dir(follow_symlinks=False):
        waiting.append(path)
    elif one.is_symlink() or one.is_file(follow_symlinks=False):
        listing.files.append(path)
    else:
        listing.specials.append(path)


def _stamp(state: os.stat_result) -> Stamp:
    return Stamp(state.st_mtime_ns, state.st_ctime_ns, state.st_size, state.st_ino)


@contextmanager
def _names(ground: Ground, path: bytes) -> Iterator[None]:
    """Make of what the system says a sentence with the path in it, unless it went away."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise
    except OSError as error:
        # A link where a folder or file stood a moment ago.
        if error.errno == errno.ELOOP:
            raise NotADirectoryError from error
        remedy = "give the user that runs this the right to, or move it away"
        problem = f"{shown(ground, path)} cannot be read ({error.strerror})"
        raise ShadowError(f"{problem}; {remedy}") from error


def shown(ground: Ground, path: bytes) -> str:
    """Return where something stands in a form for people."""
    return repr(str(ground.root / os.fsdecode(path)))
