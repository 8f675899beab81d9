"""The difference between two commits, file by file, with a limit of size and time.

Reviewers and judges see it, so nothing in the commits may hide a part of it: git's attributes,
drivers and the user's settings are ignored.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import PurePosixPath

from interlock.git.branch import commit_of, using_commit_of
from interlock.git.errors import TimedOutError
from interlock.git.program import Git
from interlock.git.repository import Repository
from interlock.kernel.store.codec import storable

DIFF_S = 60.0
FILES_MAX = 500
MERGES_MAX = 10_000
# A file that is larger, before or after the change, is only named.
BLOB_BYTES_MAX = 1024 * 1024
# The patches of so many files are read from git at once: together they have at most so many bytes.
_BATCH_BYTES_MAX = 8 * 1024 * 1024
_BATCH_NAME_BYTES_MAX = 64 * 1024
# Every line of a file's content has a character before it, so no file can contain this one.
_HEADER = re.compile(rb"^(?=diff --git )", re.MULTILINE)
# One file gets at most a quarter of all bytes, so that other files get some too.
_SHARE = 4
_LINK = "160000"
_KINDS: Mapping[str, str] = {"A": "added", "D": "deleted", "M": "changed", "T": "changed"}
_COMPARE = ("diff-tree", "-r", "--no-renames", "--ignore-submodules=none")
# As text, whatever .gitattributes says: an agent could declare its code binary.
_PATCH = ("-p", "--text", "--no-ext-diff", "--no-textconv", "--no-color", "--submodule=short")


@dataclass(frozen=True, slots=True)
class FileDiff:
    """One file: how it changed, its unified diff, and which part of that is missing and why.

    A byte of its path that is not UTF-8 is escaped.
    """

    path: str
    kind: str
    text: str
    missing: str = ""


@dataclass(frozen=True, slots=True)
class Diff:
    """The changed files by name. `unnamed` is how many more there are."""

    files: tuple[FileDiff, ...]
    unnamed: int = 0


@dataclass(frozen=True, slots=True)
class LineCounts:
    """The number of files that differ, and of the lines that were added and removed in them.

    In `binary` of the files, git counts no lines: by their content, or by .gitattributes.
    """

    files: int
    added: int
    removed: int
    binary: int


@dataclass(frozen=True, slots=True)
class _DiffEntry:
    path: str
    kind: str
    blobs: tuple[str, ...]
    # Git shows a file that becomes a link as one that is deleted and one that is added.
    parts: int


def diff(
    repository: Repository, *, base: str, commit: str, bytes_max: int, within_s: float = DIFF_S
) -> Diff:
    """Return the difference of a commit from its base, in at most `bytes_max` bytes of text.

    Both are branches or whole commit ids. Raises GitError; TimedOutError after `within_s`.
    """
    reader = _DiffReader(repository.git, within_s, time.monotonic() + within_s)
    with using_commit_of(repository, base, commit) as between:
        entries = reader.entries(between)
    named = entries[:FILES_MAX]
    sizes = reader.sizes(named)
    folders = {str(outer) for entry in entries for outer in PurePosixPath(entry.path).parents}
    unfit = {entry: _unfit(entry, sizes, folders) for entry in named}
    patches = reader.patches(between, [entry for entry in named if not unfit[entry]], sizes)
    left, files = bytes_max, []
    for entry in named:
        text, missing = "", unfit[entry] or ("" if left > 0 else "only named: no room was left")
        if not missing:
            text, missing = _cut(next(patches), min(left, bytes_max // _SHARE))
        left -= len(text.encode())
        files.append(FileDiff(storable(entry.path), entry.kind, text, missing))
    return Diff(tuple(files), len(entries) - len(named))


def paths_between(repository: Repository, *, base: str, commit: str) -> tuple[str, ...]:
    """Return every path that differs between two commits, sorted; both names of a renamed file.

    Raises GitError; TimedOutError if it takes longer than DIFF_S.
    """
    reader = _DiffReader(repository.git, DIFF_S, time.monotonic() + DIFF_S)
    with using_commit_of(repository, base, commit) as between:
        return tuple(sorted(entry.path for entry in reader.entries(between)))


def lines_between(repository: Repository, *, base: str, commit: str) -> LineCounts:
    """Return how many files differ between two commits, and how many lines.

    Raises GitError; TimedOutError if it takes longer than DIFF_S.
    """
    reader = _DiffReader(repository.git, DIFF_S, time.monotonic() + DIFF_S)
    with using_commit_of(repository, base, commit) as between:
        return reader.line_counts(between)


def merge_of(repository: Repository, commit: str, *, target: str) -> tuple[str, str] | None:
    """Return the target's commits before and after the merge that brought a commit in, or None.

    Only the target's last MERGES_MAX merges are searched.
    """
    tip = commit_of(repository, target)
    limit = f"--max-count={MERGES_MAX}"
    listing = repository.git.line("rev-list", "--first-parent", "--merges", "--parents", limit, tip)
    for line in listing.splitlines():
        merge, before, *others = line.split(" ")
        if commit in others:
            return before, merge
    return None


@dataclass(frozen=True, slots=True)
class _DiffReader:
    git: Git
    within_s: float
    until: float

    def entries(self, between: tuple[str, ...]) -> tuple[_DiffEntry, ...]:
        """Return every file that differs, in the order of their names."""
        command = (*_COMPARE, "--raw", "--no-abbrev", "-z", *between, "--")
        fields = self._now().run(*command).names()
        return tuple(
            _entry(facts, path) for facts, path in zip(fields[::2], fields[1::2], strict=True)
        )

    def sizes(self, entries: Collection[_DiffEntry]) -> Mapping[str, int]:
        """Return the size in bytes of each blob of the entries."""
        blobs = sorted({blob for entry in entries for blob in entry.blobs})
        names = "".join(f"{blob}\n" for blob in blobs).encode()
        check = "--batch-check=%(objectname) %(objectsize)"
        lines = self._now().line("cat-file", check, stdin=names).splitlines()
        return {name: int(size) for name, size in (line.split(" ") for line in lines)}

    def line_counts(self, between: tuple[str, ...]) -> LineCounts:
        """Return how many files and lines differ. Of a binary file git prints dashes."""
        command = (*_COMPARE, "--no-ext-diff", "--no-textconv", "--numstat", "-z", *between, "--")
        counts = [field.split("\t")[:2] for field in self._now().run(*command).names()]
        lines = [(int(added), int(removed)) for added, removed in counts if added != "-"]
        added, removed = (sum(pair[side] for pair in lines) for side in (0, 1))
        return LineCounts(len(counts), added, removed, binary=len(counts) - len(lines))

    def patches(
        self,
        between: tuple[str, ...],
        entries: Sequence[_DiffEntry],
        sizes: Mapping[str, int],
    ) -> Iterator[bytes]:
        """Yield the unified diff of each file."""
        for batch in _batches(entries, sizes):
            paths = (f":(top,literal){entry.path}" for entry in batch)
            output = self._now().run(*_COMPARE, *_PATCH, *between, "--", *paths).output
            parts = iter(_HEADER.split(output)[1:])
            for entry in batch:
                yield b"".join(islice(parts, entry.parts))

    def _now(self) -> Git:
        """Return git limited to the time that is left. Raises TimedOutError if none is left."""
        left_s = self.until - time.monotonic()
        if left_s <= 0:
            raise TimedOutError("git diff-tree", self.within_s)
        return replace(self.git, command_s=min(self.git.command_s, left_s))


def _entry(facts: str, path: str) -> _DiffEntry:
    before, after, old, new, kind = facts.removeprefix(":").split(" ")
    sides = ((before, old), (after, new))
    # A submodule's commit is not a blob, and an added or deleted file has only one.
    blobs = tuple(blob for mode, blob in sides if mode != _LINK and int(mode))
    return _DiffEntry(path, _KINDS[kind], blobs, parts=2 if kind == "T" else 1)


def _batches(
    entries: Sequence[_DiffEntry], sizes: Mapping[str, int]
) -> Iterator[Sequence[_DiffEntry]]:
    """Yield the entries in groups whose patches and names are not too large for one process."""
    batch: list[_DiffEntry] = []
    patch_bytes = name_bytes = 0
    for entry in entries:
        # A line has at least one byte, and one more in a patch.
        patch = 2 * sum(sizes[blob] for blob in entry.blobs)
        name = len(os.fsencode(entry.path))
        too_large = patch_bytes + patch > _BATCH_BYTES_MAX
        if batch and (too_large or name_bytes + name > _BATCH_NAME_BYTES_MAX):
            yield batch
            batch, patch_bytes, name_bytes = [], 0, 0
        batch.append(entry)
        patch_bytes, name_bytes = patch_bytes + patch, name_bytes + name
    if batch:
        yield batch


def _unfit(entry: _DiffEntry, sizes: Mapping[str, int], folders: Collection[str]) -> str:
    if entry.path in folders:
        # Given this path, git would also compare everything in the folder.
        return "only named: it is a folder on one side"
    size = max((sizes[blob] for blob in entry.blobs), default=0)
    return f"only named: it has {size} bytes" if size > BLOB_BYTES_MAX else ""


def _cut(patch: bytes, bytes_max: int) -> tuple[str, str]:
    """Return the beginning of a patch as text, and what is missing of it."""
    if b"\0" in patch:
        return "", "only named: it is binary"
    whole = patch.decode(errors="backslashreplace").encode()
    text = whole[:bytes_max].decode(errors="ignore")
    cut = f"cut: {bytes_max} of {len(whole)} bytes are shown" if len(whole) > bytes_max else ""
    return text, cut
