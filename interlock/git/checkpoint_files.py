"""Reads a workspace for a checkpoint: the entry at each path, and its hash.

Paths are bytes, relative to the workspace, because a file name need not be text. No link is
followed: each folder is opened from its parent folder.
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

from interlock.git.checkpoint_objects import (
    ObjectDraft,
    ObjectKind,
    ObjectWriteError,
    object_hash,
    object_head,
)
from interlock.git.errors import GitError
from interlock.workers.files.atomic import replace_bytes

INTERLOCK_FOLDER = b".interlock"
REPOSITORY = b".git"
# Two writes within one tick of a file system's clock look the same; the coarsest tick is 2 s.
RACY_NS = 2_000_000_000
# A file that changed during each of the first tries is then read as one that only becomes longer.
TRIES_MAX = 5
WHOLE_TRIES = 3
_CHUNK_BYTES = 1024 * 1024
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Nonblocking: a fifo that has replaced a file would make us wait for its writer.
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class CheckpointStoreError(GitError):
    """A checkpoint cannot be taken, read or restored. Do what the message says, then repeat."""


class EntryKind(StrEnum):
    """The kind of an entry, as git writes its mode."""

    FILE = "100644"
    FOLDER = "040000"
    LINK = "120000"
    PROGRAM = "100755"


@dataclass(frozen=True, slots=True)
class Stamp:
    """The metadata of a file that shows whether its content changed; times in nanoseconds."""

    modified_ns: int
    changed_ns: int
    size: int
    inode: int


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """The entry at a path. The hash of a folder, and of a file that may not be read, is empty."""

    kind: EntryKind
    sha: str = ""
    stamp: Stamp | None = field(default=None, compare=False)


@dataclass(slots=True)
class Listing:
    """The paths below a workspace; a folder comes before the folders inside it."""

    files: list[bytes] = field(default_factory=list)
    folders: list[bytes] = field(default_factory=list)
    repositories: list[bytes] = field(default_factory=list)
    specials: list[bytes] = field(default_factory=list)


@dataclass(slots=True)
class OpenedRoot:
    """Opens the folders of a workspace one at a time, and keeps the last one open."""

    root: Path
    _path: bytes | None = None
    _descriptor: int = -1

    def close(self) -> None:
        """Close the folder that is open."""
        if self._path is not None:
            os.close(self._descriptor)
            self._path = None

    def folder(self, path: bytes) -> int:
        """Return the descriptor of a folder, valid until the next call. Raises OSError."""
        if path != self._path:
            self.close()
            self._descriptor = self._open(path)
            self._path = path
        return self._descriptor

    def _open(self, path: bytes) -> int:
        descriptor = os.open(self.root, _FOLDER_FLAGS)
        for part in path.split(b"/") if path else ():
            outer = descriptor
            try:
                descriptor = os.open(part, _FOLDER_FLAGS, dir_fd=outer)
            finally:
                os.close(outer)
        return descriptor


@dataclass(frozen=True, slots=True)
class HashCache:
    """The hashes of files at the last checkpoint; a file that it lacks is hashed again."""

    file: Path
    known: Mapping[bytes, tuple[Stamp, str]]

    @classmethod
    def load(cls, file: Path) -> HashCache:
        """Read the hashes that an earlier checkpoint kept."""
        known = {}
        with suppress(OSError, ValueError, TypeError):
            digest, _, content = file.read_bytes().partition(b"\n")
            if digest.decode() == hashlib.sha256(content).hexdigest():
                for path, (sha, *stamp) in json.loads(content).items():
                    known[os.fsencode(path)] = (Stamp(*stamp), sha)
        return cls(file, known)

    def sha(self, path: bytes, stamp: Stamp) -> str | None:
        """Return the hash of a file that has not changed since; None otherwise."""
        then, sha = self.known.get(path, (None, None))
        return sha if then == stamp else None

    def keep(self, entries: Mapping[bytes, TreeEntry], *, seen_ns: int) -> None:
        """Write the hashes of all files whose next change is certain to change their stamp.

        `seen_ns` is a time, by the clock of the file system, before the first file was read.
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


def list_root(opened: OpenedRoot) -> Listing:
    """Return all paths but those of git and Interlock. Raises CheckpointStoreError."""
    listing = Listing()
    waiting = [b""]
    while waiting:
        path = waiting.pop()
        try:
            with _errors_named(opened, path), os.scandir(opened.folder(path)) as found:
                inside = sorted(found, key=lambda entry: entry.name)
                if path:
                    listing.folders.append(path)
                for entry in inside:
                    _sort_in(listing, waiting, entry, path)
        except (FileNotFoundError, NotADirectoryError):
            if not path:
                raise CheckpointStoreError(
                    f"the folder {opened.root} is not there; make it again"
                ) from None
    return listing


def hash_entries(opened: OpenedRoot, listing: Listing, cache: HashCache) -> dict[bytes, TreeEntry]:
    """Return the entry at each path that still exists. Raises CheckpointStoreError."""
    entries = {path: TreeEntry(EntryKind.FOLDER) for path in listing.folders}
    for path in listing.files:
        if entry := read_entry(opened, path, cache=cache):
            entries[path] = entry
    return entries


def read_entry(
    opened: OpenedRoot,
    path: bytes,
    *,
    cache: HashCache | None = None,
    into: ObjectDraft | None = None,
) -> TreeEntry | None:
    """Return a file or link with its hash, and write its content; None if it is gone.

    If it need not be written, a file that may not be read has an empty hash. Of a file that another
    program makes longer all the time, such as a log, the beginning is taken.
    Raises CheckpointStoreError.
    """
    outer, _, name = path.rpartition(b"/")
    gone = False
    for tries in range(TRIES_MAX):
        try:
            with _errors_named(opened, path):
                if tries < WHOLE_TRIES:
                    return _read_once(opened.folder(outer), name, path, cache, into)
                return _read_beginning(opened.folder(outer), name, into)
        except FileNotFoundError:
            return None
        except NotADirectoryError:
            gone = True
        except _ChangedError:
            gone = False
        except CheckpointStoreError as error:
            if into is None and isinstance(error.__cause__, PermissionError):
                return TreeEntry(EntryKind.FILE)
            raise
    if gone:
        return None
    where = shown(opened, path)
    raise CheckpointStoreError(
        f"{where} changes whenever it is read; stop the program that writes to it, then repeat"
    )


class _ChangedError(Exception):
    """The file changed while it was read. Read it again."""


def _read_once(
    folder: int, name: bytes, path: bytes, cache: HashCache | None, into: ObjectDraft | None
) -> TreeEntry | None:
    state = os.lstat(name, dir_fd=folder)
    if stat.S_ISLNK(state.st_mode):
        target = os.readlink(name, dir_fd=folder)
        if into:
            into.begin(object_head(ObjectKind.BLOB, len(target)))
            into.write(target)
        return TreeEntry(EntryKind.LINK, object_hash(ObjectKind.BLOB, target))
    if not stat.S_ISREG(state.st_mode):
        return None
    kind = EntryKind.PROGRAM if state.st_mode & stat.S_IXUSR else EntryKind.FILE
    if cache and (sha := cache.sha(path, _stamp(state))):
        return TreeEntry(kind, sha, _stamp(state))
    with os.fdopen(os.open(name, _FILE_FLAGS, dir_fd=folder), "rb", buffering=0) as source:
        if _stamp(os.fstat(source.fileno())) != _stamp(state):
            raise _ChangedError
        content = hash_content(source, state.st_size, into)
        if content is None or _stamp(os.fstat(source.fileno())) != _stamp(state):
            raise _ChangedError
    return TreeEntry(kind, content, _stamp(state))


def _read_beginning(folder: int, name: bytes, into: ObjectDraft | None) -> TreeEntry | None:
    """Read the content that a file has now, while it may become longer.

    That content is the same at two readings, so the file had it between the two.
    """
    with os.fdopen(os.open(name, _FILE_FLAGS, dir_fd=folder), "rb", buffering=0) as source:
        state = os.fstat(source.fileno())
        if not stat.S_ISREG(state.st_mode):
            return None
        content = hash_beginning(source, state.st_size, into)
        source.seek(0)
        if content is None or hash_beginning(source, state.st_size) != content:
            raise _ChangedError
    kind = EntryKind.PROGRAM if state.st_mode & stat.S_IXUSR else EntryKind.FILE
    return TreeEntry(kind, content)


def hash_content(source: IO[bytes], size: int, into: ObjectDraft | None = None) -> str | None:
    """Return the hash of a file of this size, and write its content; None if its size differs."""
    content = hash_beginning(source, size, into)
    return None if source.read(1) else content


def hash_beginning(source: IO[bytes], size: int, into: ObjectDraft | None = None) -> str | None:
    """Return the hash of so many bytes, and write them; None if the file has fewer."""
    head = object_head(ObjectKind.BLOB, size)
    digest = hashlib.sha1(head, usedforsecurity=False)
    if into:
        into.begin(head)
    left = size
    while chunk := source.read(min(left, _CHUNK_BYTES)):
        digest.update(chunk)
        left -= len(chunk)
        if into:
            into.write(chunk)
    return digest.hexdigest() if left == 0 else None


def trees(entries: Mapping[bytes, TreeEntry]) -> Iterator[bytes]:
    """Yield the content of the tree of each folder; that of the workspace itself is the last.

    An empty folder is a tree too; git's index cannot have one.
    """
    inside: dict[bytes, list[tuple[bytes, EntryKind, str]]] = {b"": []}
    inside |= {path: [] for path, entry in entries.items() if entry.kind is EntryKind.FOLDER}
    for path, entry in entries.items():
        if entry.kind is not EntryKind.FOLDER:
            outer, _, name = path.rpartition(b"/")
            inside[outer].append((name, entry.kind, entry.sha))
    for folder in sorted(inside, key=_depth, reverse=True):
        content = b"".join(_in_tree(*entry) for entry in sorted(inside[folder], key=_git_order))
        yield content
        if folder:
            outer, _, name = folder.rpartition(b"/")
            sha = object_hash(ObjectKind.TREE, content)
            inside[outer].append((name, EntryKind.FOLDER, sha))


def _depth(folder: bytes) -> int:
    return folder.count(b"/") + 1 if folder else 0


def _git_order(entry: tuple[bytes, EntryKind, str]) -> bytes:
    name, kind, _ = entry
    return name + b"/" if kind is EntryKind.FOLDER else name


def _in_tree(name: bytes, kind: EntryKind, sha: str) -> bytes:
    return kind.value.lstrip("0").encode() + b" " + name + b"\0" + bytes.fromhex(sha)


def _sort_in(
    listing: Listing, waiting: list[bytes], entry: os.DirEntry[str], folder: bytes
) -> None:
    name = os.fsencode(entry.name)
    path = folder + b"/" + name if folder else name
    if name == REPOSITORY:
        listing.repositories.append(path)
    elif path == INTERLOCK_FOLDER:
        return
    elif entry.is_dir(follow_symlinks=False):
        waiting.append(path)
    elif entry.is_symlink() or entry.is_file(follow_symlinks=False):
        listing.files.append(path)
    else:
        listing.specials.append(path)


def _stamp(state: os.stat_result) -> Stamp:
    return Stamp(state.st_mtime_ns, state.st_ctime_ns, state.st_size, state.st_ino)


@contextmanager
def _errors_named(opened: OpenedRoot, path: bytes) -> Iterator[None]:
    """Turn an OSError of reading into a CheckpointStoreError, unless the file is gone."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError, ObjectWriteError):
        raise
    except OSError as error:
        # A link has replaced the folder or file.
        if error.errno == errno.ELOOP:
            raise NotADirectoryError from error
        remedy = "give the user that runs this the right to read it, or move it away"
        problem = f"{shown(opened, path)} cannot be read ({error.strerror})"
        raise CheckpointStoreError(f"{problem}; {remedy}") from error


def shown(opened: OpenedRoot, path: bytes) -> str:
    """Return a path as text for people."""
    return repr(str(opened.root / os.fsdecode(path)))
