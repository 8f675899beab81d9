"""Makes a workspace equal to a checkpoint, except for each `.git` and the `.interlock` in it.

All contents are written beside the store and checked before the first change. Then each file is
moved to its path in one step. After any interruption, a repetition completes it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from interlock.git.checkpoint_files import (
    INTERLOCK_FOLDER,
    REPOSITORY,
    CheckpointStoreError,
    EntryKind,
    Listing,
    OpenedRoot,
    TreeEntry,
    hash_content,
    shown,
    trees,
)
from interlock.git.checkpoint_objects import ObjectFolder, ObjectKind
from interlock.git.errors import GitError
from interlock.git.program import Git

_CONTENTS = "laid"
_NEW_LINK = "link"


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """The changes to make, in this order. A folder to remove comes after the folders inside it."""

    unlinked: tuple[bytes, ...]
    folders_removed: tuple[bytes, ...]
    folders_made: tuple[bytes, ...]
    written: Mapping[bytes, TreeEntry]
    blocked: tuple[bytes, ...]

    @property
    def is_empty(self) -> bool:
        """Tell whether the workspace is equal to the checkpoint already."""
        return not (self.unlinked or self.folders_removed or self.folders_made or self.written)


def entries_of(git: Git, sha: str) -> dict[bytes, TreeEntry]:
    """Return all entries of a checkpoint. Raises CheckpointStoreError for one we never write."""
    entries = {}
    try:
        listing = git.run("ls-tree", "-r", "-t", "-z", "--full-tree", sha).output
    except GitError as error:
        raise CheckpointStoreError(f"the checkpoint {sha} cannot be read; {error}") from error
    for line in filter(None, listing.split(b"\0")):
        facts, _, path = line.partition(b"\t")
        mode, _, content = facts.decode().split(" ")
        parts = path.split(b"/")
        foreign = parts[0] == INTERLOCK_FOLDER or {b"", b".", b"..", REPOSITORY} & set(parts)
        if foreign or mode not in set(EntryKind):
            name = repr(os.fsdecode(path))
            raise CheckpointStoreError(
                f"the checkpoint {sha} has {name}, which Interlock never saves; take another"
            )
        kind = EntryKind(mode)
        entries[path] = TreeEntry(kind, "" if kind is EntryKind.FOLDER else content)
    return entries


def plan(
    target: Mapping[bytes, TreeEntry], current: Mapping[bytes, TreeEntry], listing: Listing
) -> RestorePlan:
    """Return the changes that make the current entries equal to the target.

    A folder with a `.git` in it stays. A fifo, socket or device stays unless an entry of the
    target needs its path, because no checkpoint has such a file.
    """
    holding = {outer for path in listing.repositories for outer in _outer(path)}
    wanted = {path for path, entry in target.items() if entry.kind is EntryKind.FOLDER}
    folders = set(listing.folders)
    unlinked = [
        path
        for path, entry in current.items()
        if entry.kind is not EntryKind.FOLDER and (path not in target or path in wanted)
    ]
    unlinked += [
        path
        for path in listing.specials
        if path in target or path.rpartition(b"/")[0] not in wanted | {b""}
    ]
    return RestorePlan(
        unlinked=tuple(sorted(unlinked)),
        folders_removed=tuple(sorted(folders - wanted - holding, reverse=True)),
        folders_made=tuple(sorted(wanted - folders)),
        written={
            path: entry
            for path, entry in sorted(target.items())
            if entry.kind is not EntryKind.FOLDER and current.get(path) != entry
        },
        blocked=tuple(sorted(holding & set(target) - wanted)),
    )


def write_contents(
    git: Git, objects: ObjectFolder, written: Mapping[bytes, TreeEntry]
) -> dict[bytes, Path]:
    """Write the contents to numbered files, whose names no attribute matches, and check them.

    Raises CheckpointStoreError if the store does not return the content that was written to it.
    """
    folder = objects.scratch / _CONTENTS
    folder.mkdir()
    files = {path: folder / str(number) for number, path in enumerate(written)}
    numbered = {
        os.fsencode(files[path].name): TreeEntry(EntryKind.FILE, entry.sha)
        for path, entry in written.items()
    }
    (tree,) = (objects.put(ObjectKind.TREE, content) for content in trees(numbered))
    index = objects.scratch / "index"
    isolated = git.in_folder(folder, GIT_WORK_TREE=str(folder), GIT_INDEX_FILE=str(index))
    isolated.run("read-tree", "--reset", "-u", tree)
    for path, file in files.items():
        with file.open("rb") as source:
            if hash_content(source, file.stat().st_size) != written[path].sha:
                name = repr(os.fsdecode(path))
                raise CheckpointStoreError(
                    f"the store is damaged: it returns other content for {name}"
                )
    return files


def apply(opened: OpenedRoot, steps: RestorePlan, files: Mapping[bytes, Path]) -> None:
    """Change the workspace. After a CheckpointStoreError it can be repeated."""
    for path in steps.unlinked:
        with _parent(opened, path) as (folder, name):
            os.unlink(name, dir_fd=folder)
    for path in steps.folders_removed:
        with _parent(opened, path) as (folder, name):
            os.rmdir(name, dir_fd=folder)
    for path in steps.folders_made:
        with _parent(opened, path) as (folder, name):
            os.mkdir(name, dir_fd=folder)
    for path, entry in steps.written.items():
        with _parent(opened, path) as (folder, name):
            _put(folder, name, entry.kind, files[path])


def _put(folder: int, name: bytes, kind: EntryKind, file: Path) -> None:
    if kind is EntryKind.LINK:
        link = file.with_name(_NEW_LINK)
        link.symlink_to(os.fsdecode(file.read_bytes()))
        link.replace(file)
    else:
        file.chmod(_mode(folder, name, kind, file))
    os.rename(file, name, dst_dir_fd=folder)


def _mode(folder: int, name: bytes, kind: EntryKind, file: Path) -> int:
    """Return the mode for a file: read rights stay, and readers of a program may execute it."""
    try:
        state = os.lstat(name, dir_fd=folder)
    except FileNotFoundError:
        state = file.stat()
    if not stat.S_ISREG(state.st_mode):
        state = file.stat()
    mode = stat.S_IMODE(state.st_mode) & 0o666 | stat.S_IRUSR
    return mode | (mode & 0o444) >> 2 if kind is EntryKind.PROGRAM else mode


@contextmanager
def _parent(opened: OpenedRoot, path: bytes) -> Iterator[tuple[int, bytes]]:
    outer, _, name = path.rpartition(b"/")
    try:
        folder = opened.folder(outer)
        mode = stat.S_IMODE(os.fstat(folder).st_mode)
        # Some package managers write-protect the folders that they unpack.
        if mode & stat.S_IRWXU != stat.S_IRWXU:
            os.fchmod(folder, mode | stat.S_IRWXU)
        yield folder, name
    except OSError as error:
        where = shown(opened, path)
        problem = f"{where} cannot be restored ({error.strerror}), the workspace is half restored"
        raise CheckpointStoreError(
            f"{problem}; stop the programs that work there, then repeat"
        ) from error


def _outer(path: bytes) -> Iterator[bytes]:
    while b"/" in path:
        path = path.rpartition(b"/")[0]
        yield path
