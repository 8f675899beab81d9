"""What one commit changes against another, file by file and bounded; it looks at no working tree.

It is meant for who judges the changes, so nothing that is committed there may hide a part of them:
attributes, drivers and the user's settings do not count.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from interlock.workers.gateways.git.branch import commit_of
from interlock.workers.gateways.git.errors import TimedOutError
from interlock.workers.gateways.git.program import Git
from interlock.workers.gateways.git.repository import Repository

DIFF_S = 60.0
FILES_MAX = 500
MERGES_MAX = 10_000
# Of a file that is larger, before or after, only the name is told.
BLOB_BYTES_MAX = 1024 * 1024
# One long file must not leave the others without room.
_SHARE = 4
_LINK = "160000"
_KINDS: Mapping[str, str] = {"A": "added", "D": "deleted", "M": "changed", "T": "changed"}
_COMPARE = ("diff-tree", "-r", "--no-renames", "--ignore-submodules=none")
# Text whatever .gitattributes says: an agent could call its code binary.
_PATCH = ("-p", "--text", "--no-ext-diff", "--no-textconv", "--no-color", "--submodule=short")


@dataclass(frozen=True, slots=True)
class FileDiff:
    """One file: what became of it, its unified diff, and what of that is missing and why."""

    path: str
    kind: str
    text: str
    missing: str = ""


@dataclass(frozen=True, slots=True)
class Diff:
    """The changed files by name. `unnamed` says how many more there are."""

    files: tuple[FileDiff, ...]
    unnamed: int = 0


@dataclass(frozen=True, slots=True)
class _Entry:
    path: str
    kind: str
    blobs: tuple[str, ...]


def diff(
    repository: Repository, *, base: str, commit: str, bytes_max: int, within_s: float = DIFF_S
) -> Diff:
    """Return how a commit differs from its base, in at most that many bytes of text.

    Both are branches or whole ids of commits. Raises GitError; TimedOutError if it takes longer.
    """
    between = (commit_of(repository, base), commit_of(repository, commit))
    reader = _Reader(repository.git, within_s, time.monotonic() + within_s)
    entries = reader.entries(between)
    told = entries[:FILES_MAX]
    sizes = reader.sizes(told)
    folders = {str(above) for one in entries for above in PurePosixPath(one.path).parents}
    left, files = bytes_max, []
    for entry in told:
        text, missing = "", _unfit(entry, sizes, folders, left)
        if not missing:
            patch = reader.patch(between, entry)
            text, missing = _cut(patch, min(left, bytes_max // _SHARE))
        left -= len(text.encode())
        files.append(FileDiff(entry.path, entry.kind, text, missing))
    return Diff(tuple(files), len(entries) - len(told))


def paths_between(repository: Repository, *, base: str, commit: str) -> tuple[str, ...]:
    """Return every path that differs between two commits, sorted; both names of a renamed file.

    Raises GitError; TimedOutError if it takes longer than DIFF_S.
    """
    between = (commit_of(repository, base), commit_of(repository, commit))
    reader = _Reader(repository.git, DIFF_S, time.monotonic() + DIFF_S)
    return tuple(sorted(entry.path for entry in reader.entries(between)))


def merge_of(repository: Repository, commit: str, *, target: str) -> tuple[str, str] | None:
    """Return where a target stood before and after it took a commit in by a merge, or None.

    Only the target's last MERGES_MAX merges are looked at.
    """
    tip = commit_of(repository, target)
    many = f"--max-count={MERGES_MAX}"
    listing = repository.git.line("rev-list", "--first-parent", "--merges", "--parents", many, tip)
    for line in listing.splitlines():
        merge, before, *others = line.split(" ")
        if commit in others:
            return before, merge
    return None


@dataclass(frozen=True, slots=True)
class _Reader:
    git: Git
    within_s: float
    until: float

    def entries(self, between: tuple[str, str]) -> tuple[_Entry, ...]:
        """Return every file that differs, in the order of their names."""
        command = (*_COMPARE, "--raw", "--no-abbrev", "-z", *between, "--")
        fields = self._now().run(*command).names()
        return tuple(
            _entry(facts, path) for facts, path in zip(fields[::2], fields[1::2], strict=True)
        )

    def sizes(self, entries: Collection[_Entry]) -> Mapping[str, int]:
        """Return the bytes of their blobs."""
        blobs = sorted({blob for entry in entries for blob in entry.blobs})
        asked = "".join(f"{blob}\n" for blob in blobs).encode()
        check = "--batch-check=%(objectname) %(objectsize)"
        lines = self._now().line("cat-file", check, given=asked).splitlines()
        return {name: int(size) for name, size in (line.split(" ") for line in lines)}

    def patch(self, between: tuple[str, str], entry: _Entry) -> bytes:
        """Return the unified diff of one file."""
        path = f":(top,literal){entry.path}"
        return self._now().run(*_COMPARE, *_PATCH, *between, "--", path).output

    def _now(self) -> Git:
        """Return git, for as long as there is time left."""
        left_s = self.until - time.monotonic()
        if left_s <= 0:
            raise TimedOutError("git diff-tree", self.within_s)
        return replace(self.git, command_s=min(self.git.command_s, left_s))


def _entry(facts: str, path: str) -> _Entry:
    before, after, old, new, kind = facts.removeprefix(":").split(" ")
    sides = ((before, old), (after, new))
    # A link to a submodule's commit is no blob, nor is what is not there.
    blobs = tuple(blob for mode, blob in sides if mode != _LINK and int(mode))
    return _Entry(path, _KINDS[kind], blobs)


def _unfit(entry: _Entry, sizes: Mapping[str, int], folders: Collection[str], left: int) -> str:
    if entry.path in folders:
        # Its name would stand for everything in the folder as well.
        return "only named: it is a folder on one side"
    size = max((sizes[blob] for blob in entry.blobs), default=0)
    if size > BLOB_BYTES_MAX:
        return f"only named: it has {size} bytes"
    return "" if left > 0 else "only named: no room was left"


def _cut(patch: bytes, bytes_max: int) -> tuple[str, str]:
    """Return the beginning of a patch as text, and what is missing of it."""
    if b"\0" in patch:
        return "", "only named: it is binary"
    whole = patch.decode(errors="backslashreplace").encode()
    text = whole[:bytes_max].decode(errors="ignore")
    cut = f"cut: {bytes_max} of {len(whole)} bytes are shown" if len(whole) > bytes_max else ""
    return text, cut
