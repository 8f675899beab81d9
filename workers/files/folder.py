"""A folder that others filled: asked what is in it, and never looked out of.

A path that leads out of it, by its text or by a link, is refused before anything is opened. What
an agent leaves behind may be a trap, so only plain files are read, and only up to a limit.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from stat import S_ISREG

FILE_BYTES_MAX = 64 * 1024 * 1024
ENTRIES_MAX = 200_000
_READ_BYTES = 1024 * 1024


class FolderError(Exception):
    """The question has no answer. The text is one sentence that says why."""


def problem_of_path(path: str) -> str | None:
    """Tell what is wrong with a path inside a folder by its text alone, or None."""
    if not path.strip():
        return "the path is empty"
    if "\0" in path:
        return "the path has a NUL character"
    if path.startswith("/"):
        return "the path is absolute; give one inside the folder"
    if ".." in PurePosixPath(path).parts:
        return "the path has '..', which leads out of the folder"
    return None


class Folder:
    """Answers about one folder. Every question raises FolderError when it has no answer."""

    def __init__(self, root: Path) -> None:
        with _told():
            self._root = root.resolve()

    def has(self, path: str) -> bool:
        """Tell whether a file or folder is there."""
        with _told():
            return self._inside(path).exists()

    def has_match(self, pattern: str) -> bool:
        """Tell whether something fits a pattern: `*`, `?`, `[...]`, and `**` for folders below.

        As in a shell, a wildcard finds no name that starts with a dot.
        """
        with _told():
            self._check(pattern)
            parts = PurePosixPath(pattern).parts
            if not parts:
                raise FolderError("the pattern names nothing in the folder")
            # A trailing ** means whatever is below.
            return self._search((*parts, "*") if parts[-1:] == ("**",) else parts)

    def contains(self, path: str, needle: str) -> bool:
        """Tell whether a file has the text in it, byte for byte as UTF-8."""
        with _told(), ExitStack() as opened:
            file = self._open(self._inside(path), opened)
            sought = needle.encode()
            kept, read = b"", 0
            while chunk := os.read(file, _READ_BYTES):
                kept, read = kept + chunk, read + len(chunk)
                if sought in kept:
                    return True
                if read > FILE_BYTES_MAX:
                    raise FolderError(f"the file has more than {FILE_BYTES_MAX} bytes")
                # The text may lie across two chunks.
                kept = kept[-len(sought) :]
            return False

    def content(self, path: str) -> bytes:
        """Return what is in a file, up to the limit."""
        with _told(), ExitStack() as opened:
            file = self._open(self._inside(path), opened)
            content = b""
            while chunk := os.read(file, _READ_BYTES):
                content += chunk
                if len(content) > FILE_BYTES_MAX:
                    raise FolderError(f"the file has more than {FILE_BYTES_MAX} bytes")
            return content

    def _check(self, path: str) -> None:
        if problem := problem_of_path(path):
            raise FolderError(problem)
        if not self._root.is_dir():
            raise FolderError("the folder is not there")

    def _inside(self, path: str) -> Path:
        self._check(path)
        target = self._resolved(self._root / path)
        if target is None:
            raise FolderError("the path leads out of the folder by a link")
        return target

    def _resolved(self, path: Path) -> Path | None:
        """Return where a path leads, or None if that is not inside; links may go in circles."""
        try:
            target = path.resolve()
        except RuntimeError:
            return None
        return target if target.is_relative_to(self._root) else None

    def _open(self, target: Path, opened: ExitStack) -> int:
        """Open a plain file step by step; a link that appeared meanwhile is not followed."""
        flags = os.O_RDONLY | os.O_NOFOLLOW
        place = os.open(self._root, flags | os.O_DIRECTORY)
        opened.callback(os.close, place)
        *folders, name = target.relative_to(self._root).parts or (".",)
        for folder in folders:
            place = os.open(folder, flags | os.O_DIRECTORY, dir_fd=place)
            opened.callback(os.close, place)
        # Opening a pipe would wait for its writer without O_NONBLOCK.
        file = os.open(name, flags | os.O_NONBLOCK, dir_fd=place)
        opened.callback(os.close, file)
        if not S_ISREG(os.fstat(file).st_mode):
            raise FolderError("the path is no plain file")
        return file

    def _search(self, parts: tuple[str, ...]) -> bool:
        """Look without recursion: how deep the folder goes was decided by others."""
        left, looked = False, 0
        waiting, seen = [(self._root, 0)], set[tuple[Path, int]]()
        while waiting:
            place, at = waiting.pop()
            if (place, at) in seen:
                continue
            seen.add((place, at))
            inner, fitting, names = _look(place, parts[at])
            looked += names
            if looked > ENTRIES_MAX:
                raise FolderError(f"more than {ENTRIES_MAX} names were looked at in vain")
            if parts[at] == "**":
                waiting += [(place, at + 1), *((path, at) for path in inner)]
            targets = [self._resolved(path) for path in fitting]
            left = left or None in targets
            found = [target for target in targets if target is not None and target.exists()]
            if found and at + 1 == len(parts):
                return True
            waiting += [(target, at + 1) for target in found]
        if left:
            raise FolderError("what fits leads out of the folder by a link")
        return False


def _look(place: Path, part: str) -> tuple[list[Path], list[Path], int]:
    """Return the folders of a place if the part is **, or what fits it, and how many it has."""
    names = 0
    inner: list[Path] = []
    fitting: list[Path] = []
    # A file has nothing in it, and what cannot be entered has nothing that could be found.
    with suppress(NotADirectoryError, PermissionError), os.scandir(place) as entries:
        for entry in entries:
            names += 1
            hidden = entry.name.startswith(".") and not part.startswith(".")
            if hidden:
                continue
            if part == "**":
                if entry.is_dir(follow_symlinks=False):
                    inner.append(place / entry.name)
            elif fnmatchcase(entry.name, part):
                fitting.append(place / entry.name)
    return inner, fitting, names


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise FolderError((error.strerror or str(error)).lower()) from error
    except (ValueError, RuntimeError) as error:
        raise FolderError("the path cannot be the name of a file") from error
