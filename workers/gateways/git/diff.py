"""The difference between two commits, file by file, with a limit of size and time.

Reviewers and judges see it, so nothing in the commits may hide a part of it: git's attributes,
drivers and the user's settings are ignored.
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
# A file that is larger, before or after the change, is only named.
BLOB_BYTES_MAX = 1024 * 1024
# One file gets at most a quarter of all bytes, so that other files get some too.
_SHARE = 4
_LINK = "160000"
_KINDS: Mapping[str, str] = {"A": "added", "D": "deleted", "M": "changed", "T": "changed"}
_COMPARE = ("diff-tree", "-r", "--no-renames", "--ignore-submodules=none")
# As text, whatever .gitattributes says: an agent could declare its code binary.
_PATCH = ("-p", "--text", "--no-ext-diff", "--no-textconv", "--no-color", "--submodule=short")


@dataclass(frozen=True, slots=True)
class FileDiff:
    """One file: how it changed, its unified diff, and which part of that is missing and why."""

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


def diff(
    repository: Repository, *, base: str, commit: str, bytes_max: int, within_s: float = DIFF_S
) -> Diff:
    """Return the difference of a commit from its base, in at most `bytes_max` bytes of text.

    Both are branches or whole commit ids. Raises GitError; TimedOutError after `within_s`.
    """
    between = (commit_of(repository, base), commit_of(repository, commit))
    reader = _DiffReader(repository.git, within_s, time.monotonic() + within_s)
    entries = reader.entries(between)
    named = entries[:FILES_MAX]
    sizes = reader.sizes(named)
    folders = {str(outer) for entry in entries for outer in PurePosixPath(entry.path).parents}
    left, files = bytes_max, []
    for entry in named:
        text, missing = "", _unfit(entry, sizes, folders, left)
        if not missing:
            patch = reader.patch(between, entry)
            text, missing = _cut(patch, min(left, bytes_max // _SHARE))
        left -= len(text.encode())
        files.append(FileDiff(entry.path, entry.kind, text, missing))
    return Diff(tuple(files), len(entries) - len(named))


def paths_between(repository: Repository, *, base: str, commit: str) -> tuple[str, ...]:
    """Return every path that differs between two commits, sorted; both names of a renamed file.

    Raises GitError; TimedOutError if it takes longer than DIFF_S.
    """
    between = (commit_of(repository, base), commit_of(repository, commit))
    reader = _DiffReader(repository.git, DIFF_S, time.monotonic() + DIFF_S)
    return tuple(sorted(entry.path for entry in reader.entries(between)))


def lines_between(repository: Repository, *, base: str, commit: str) -> LineCounts:
    """Return how many files differ between two commits, and how many lines.

    Raises GitError; TimedOutError if it takes longer than DIFF_S.
    """
    between = (commit_of(repository, base), commit_of(repository, commit))
    reader = _DiffReader(repository.git, DIFF_S, time.monotonic() + DIFF_S)
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

    def entries(self, between: tuple[str, str]) -> tuple[_DiffEntry, ...]:
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

    def line_counts(self, between: tuple[str, str]) -> LineCounts:
        """Return how many files and lines differ. Of a binary file git prints dashes."""
        command = (*_COMPARE, "--no-ext-diff", "--no-textconv", "--numstat", "-z", *between, "--")
        counts = [field.split("\t")[:2] for field in self._now().run(*command).names()]
        lines = [(int(added), int(removed)) for added, removed in counts if added != "-"]
        added, removed = (sum(pair[side] for pair in lines) for side in (0, 1))
        return LineCounts(len(counts), added, removed, binary=len(counts) - len(lines))

    def patch(self, between: tuple[str, str], entry: _DiffEntry) -> bytes:
        """Return the unified diff of one file."""
        path = f":(top,literal){entry.path}"
        return self._now().run(*_COMPARE, *_PATCH, *between, "--", path).output

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
    return _DiffEntry(path, _KINDS[kind], blobs)


def _unfit(entry: _DiffEntry, sizes: Mapping[str, int], folders: Collection[str], left: int) -> str:
    if entry.path in folders:
        # Given this path, git would also compare everything in the folder.
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
