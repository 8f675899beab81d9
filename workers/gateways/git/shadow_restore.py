"""Making a workspace equal to a checkpoint; it touches no `.git`, no `.interlock`, nothing outside.

All contents are laid out beside the store and checked before the first change. Each file is then
moved to its place at once. Whatever interrupts that, doing it again ends in the same.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from interlock.workers.gateways.git.errors import GitError
from interlock.workers.gateways.git.program import Git
from interlock.workers.gateways.git.shadow_tree import (
    OWN,
    REPOSITORY,
    Entry,
    Ground,
    Kind,
    Listing,
    ShadowError,
    hash_content,
    shown,
)

_LAID = "laid"
_NEW_LINK = "link"


@dataclass(frozen=True, slots=True)
class Plan:
    """What to change, in this order. A folder that must give way comes after those inside it."""

    unlinked: tuple[bytes, ...]
    folders_removed: tuple[bytes, ...]
    folders_made: tuple[bytes, ...]
    written: Mapping[bytes, Entry]
    blocked: tuple[bytes, ...]

    @property
    def is_empty(self) -> bool:
        """Tell whether the workspace is as it should be."""
        return not (self.unlinked or self.folders_removed or self.folders_made or self.written)


def entries_of(git: Git, sha: str) -> dict[bytes, Entry]:
    """Return all that a checkpoint holds. Raises ShadowError for what none of ours can hold."""
    entries = {}
    try:
        listing = git.run("ls-tree", "-r", "-t", "-z", "--full-tree", sha).output
    except GitError as error:
        raise ShadowError(f"the checkpoint {sha} cannot be read; {error}") from error
    for line in filter(None, listing.split(b"\0")):
        facts, _, path = line.partition(b"\t")
        mode, _, content = facts.decode().split(" ")
        parts = path.split(b"/")
        strange = parts[0] == OWN or {b"", b".", b"..", REPOSITORY} & set(parts)
        if strange or mode not in set(Kind):
            what = repr(os.fsdecode(path))
            raise ShadowError(f"the checkpoint {sha} holds {what}, which is not ours; take another")
        kind = Kind(mode)
        entries[path] = Entry(kind, "" if kind is Kind.FOLDER else content)
    return entries


def plan(target: Mapping[bytes, Entry], current: Mapping[bytes, Entry], listing: Listing) -> Plan:
    """Return what makes the current entries into the target's; it changes nothing.

    A folder stays where git's own folder is in it. A fifo, socket or device stays unless it is in
    the way, for no checkpoint knows of it.
    """
    holding = {outer for path in listing.repositories for outer in _outer(path)}
    there = {path for path, entry in target.items() if entry.kind is Kind.FOLDER}
    folders = set(listing.folders)
    unlinked = [
        path
        for path, entry in current.items()
        if entry.kind is not Kind.FOLDER and (path not in target or path in there)
    ]
    unlinked += [
        path
        for path in listing.specials
        if path in target or path.rpartition(b"/")[0] not in there | {b""}
    ]
    return Plan(
        unlinked=tuple(sorted(unlinked)),
        folders_removed=tuple(sorted(folders - there - holding, reverse=True)),
        folders_made=tuple(sorted(there - folders)),
        written={
            path: entry
            for path, entry in sorted(target.items())
            if entry.kind is not Kind.FOLDER and current.get(path) != entry
        },
        blocked=tuple(sorted(holding & set(target) - there)),
    )


def lay_out(git: Git, scratch: Path, written: Mapping[bytes, Entry]) -> dict[bytes, Path]:
    """Write the contents to plainly numbered files, which no attribute can name. They are checked.

    Raises ShadowError if the store does not give what it was given.
    """
    laid = scratch / _LAID
    laid.mkdir()
    files = {path: laid / str(number) for number, path in enumerate(written)}
    mine = git.at(laid, GIT_WORK_TREE=str(laid), GIT_INDEX_FILE=str(scratch / "index"))
    index = "".join(
        f"{Kind.FILE.value} {entry.sha}\t{files[path].name}\0" for path, entry in written.items()
    )
    mine.run("update-index", "-z", "--index-info", given=index.encode())
    mine.run("checkout-index", "--all", "--quiet")
    for path, file in files.items():
        with file.open("rb") as source:
            if hash_content(source, file.stat().st_size) != written[path].sha:
                what = repr(os.fsdecode(path))
                raise ShadowError(f"the store does not give {what} back as it was; it is damaged")
    return files


def carry_out(ground: Ground, steps: Plan, files: Mapping[bytes, Path]) -> None:
    """Change the workspace. Raises ShadowError, then it can be done again."""
    for path in steps.unlinked:
        with _place(ground, path) as (folder, name):
            os.unlink(name, dir_fd=folder)
    for path in steps.folders_removed:
        with _place(ground, path) as (folder, name):
            os.rmdir(name, dir_fd=folder)
    for path in steps.folders_made:
        with _place(ground, path) as (folder, name):
            os.mkdir(name, dir_fd=folder)
    for path, entry in steps.written.items():
        with _place(ground, path) as (folder, name):
            _put(folder, name, entry.kind, files[path])


def _put(folder: int, name: bytes, kind: Kind, file: Path) -> None:
    if kind is Kind.LINK:
        link = file.with_name(_NEW_LINK)
        link.symlink_to(os.fsdecode(file.read_bytes()))
        link.replace(file)
    else:
        file.chmod(_mode(folder, name, kind, file))
    os.rename(file, name, dst_dir_fd=folder)


def _mode(folder: int, name: bytes, kind: Kind, file: Path) -> int:
    """Return the mode for a file: who may read it stays, who may read it may run a program."""
    try:
        state = os.lstat(name, dir_fd=folder)
    except FileNotFoundError:
        state = file.stat()
    if not stat.S_ISREG(state.st_mode):
        state = file.stat()
    mode = stat.S_IMODE(state.st_mode) & 0o666 | stat.S_IRUSR
    return mode | (mode & 0o444) >> 2 if kind is Kind.PROGRAM else mode


@contextmanager
def _place(ground: Ground, path: bytes) -> Iterator[tuple[int, bytes]]:
    outer, _, name = path.rpartition(b"/")
    try:
        folder = ground.folder(outer)
        mode = stat.S_IMODE(os.fstat(folder).st_mode)
        # Package managers write-protect the folders of what they have unpacked.
        if mode & stat.S_IRWXU != stat.S_IRWXU:
            os.fchmod(folder, mode | stat.S_IRWXU)
        yield folder, name
    except OSError as error:
        where = shown(ground, path)
        problem = f"{where} cannot be put back ({error.strerror}), the workspace is half restored"
        raise ShadowError(f"{problem}; stop what is at work there, then repeat") from error


def _outer(path: bytes) -> Iterator[bytes]:
    while b"/" in path:
        path = path.rpartition(b"/")[0]
        yield path
