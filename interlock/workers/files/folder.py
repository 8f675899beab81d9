"""Answers questions about a folder that an agent filled; it reads nothing outside the folder.

A path that leads out of the folder, by its text or by a link, is refused before a file is opened.
The agent may have prepared a trap, so only plain files are read, and only up to a limit.
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


class UntrustedFolder:
    """Answers questions about one folder.

    A question without an answer raises OSError, whose text is one sentence with the reason.
    """

    def __init__(self, root: Path) -> None:
        with _folder_errors():
            self._root = root.resolve()

    @staticmethod
    def problem_of(path: str) -> str | None:
        """Return what is wrong with the text of a path inside a folder, or None."""
        if not path.strip():
            return "the path is empty"
        if "\0" in path:
            return "the path has a NUL character"
        if path.startswith("/"):
            return "the path is absolute; give one inside the folder"
        if ".." in PurePosixPath(path).parts:
            return "the path has '..', which leads out of the folder"
        return None

    def has(self, path: str) -> bool:
        """Whether a file or folder exists."""
        with _folder_errors():
            return self._inside(path).exists()

    def has_match(self, pattern: str) -> bool:
        """Whether a name matches a pattern: `*`, `?`, `[...]`, and `**` for all subfolders.

        As in a shell, a wildcard matches no name that starts with a dot.
        """
        with _folder_errors():
            self._check(pattern)
            parts = PurePosixPath(pattern).parts
            if not parts:
                raise OSError("the pattern names nothing in the folder")
            # A trailing ** matches all that is below.
            return self._search((*parts, "*") if parts[-1:] == ("**",) else parts)

    def contains(self, path: str, needle: str) -> bool:
        """Whether a file contains the text, byte for byte as UTF-8."""
        with _folder_errors(), ExitStack() as opened:
            file = self._open(self._inside(path), opened)
            sought = needle.encode()
            kept, read = b"", 0
            while chunk := os.read(file, _READ_BYTES):
                kept, read = kept + chunk, read + len(chunk)
                if sought in kept:
                    return True
                if read > FILE_BYTES_MAX:
                    raise _too_large()
                # The text may begin in one chunk and end in the next.
                kept = kept[-len(sought) :]
            return False

    def content(self, path: str) -> bytes:
        """Return the content of a file, up to the limit."""
        with _folder_errors(), ExitStack() as opened:
            file = self._open(self._inside(path), opened)
            # Reading a file up to the limit takes a tenth of a second and the memory of it.
            if os.fstat(file).st_size > FILE_BYTES_MAX:
                raise _too_large()
            content = b""
            while chunk := os.read(file, _READ_BYTES):
                content += chunk
                if len(content) > FILE_BYTES_MAX:
                    raise _too_large()
            return content

    def _check(self, path: str) -> None:
        if problem := self.problem_of(path):
            raise OSError(problem)
        if not self._root.is_dir():
            raise OSError("the folder is not there")

    def _inside(self, path: str) -> Path:
        self._check(path)
        target = self._resolved(self._root / path)
        if target is None:
            raise OSError("the path leads out of the folder by a link")
        return target

    def _resolved(self, path: Path) -> Path | None:
        """Return the target of a path, or None if it is outside. Links may form a circle."""
        try:
            target = path.resolve()
        except RuntimeError:
            return None
        return target if target.is_relative_to(self._root) else None

    def _open(self, target: Path, opened: ExitStack) -> int:
        """Open a plain file folder by folder, without following a link that appears meanwhile."""
        flags = os.O_RDONLY | os.O_NOFOLLOW
        parent = os.open(self._root, flags | os.O_DIRECTORY)
        opened.callback(os.close, parent)
        *folders, name = target.relative_to(self._root).parts or (".",)
        for folder in folders:
            parent = os.open(folder, flags | os.O_DIRECTORY, dir_fd=parent)
            opened.callback(os.close, parent)
        # Opening a pipe would wait for its writer without O_NONBLOCK.
        file = os.open(name, flags | os.O_NONBLOCK, dir_fd=parent)
        opened.callback(os.close, file)
        if not S_ISREG(os.fstat(file).st_mode):
            raise OSError("the path is no plain file")
        return file

    def _search(self, parts: tuple[str, ...]) -> bool:
        """Search without recursion, because the agent decided how deep the folder is."""
        leads_out, scanned = False, 0
        waiting, seen = [(self._root, 0)], set[tuple[Path, int]]()
        while waiting:
            folder, index = waiting.pop()
            if (folder, index) in seen:
                continue
            seen.add((folder, index))
            inner, matching, names = _scan(folder, parts[index])
            scanned += names
            if scanned > ENTRIES_MAX:
                raise OSError(f"more than {ENTRIES_MAX} names were compared without a match")
            if parts[index] == "**":
                waiting += [(folder, index + 1), *((path, index) for path in inner)]
            targets = [self._resolved(path) for path in matching]
            leads_out = leads_out or None in targets
            found = [target for target in targets if target is not None and target.exists()]
            if found and index + 1 == len(parts):
                return True
            waiting += [(target, index + 1) for target in found]
        if leads_out:
            raise OSError("the match leads out of the folder by a link")
        return False


def _scan(folder: Path, part: str) -> tuple[list[Path], list[Path], int]:
    """Return the subfolders if the part is **, else the matching names, and the number of names."""
    names = 0
    inner: list[Path] = []
    matching: list[Path] = []
    # A file has no entries, and a folder that cannot be entered has no match.
    with suppress(NotADirectoryError, PermissionError), os.scandir(folder) as entries:
        for entry in entries:
            names += 1
            hidden = entry.name.startswith(".") and not part.startswith(".")
            if hidden:
                continue
            if part == "**":
                if entry.is_dir(follow_symlinks=False):
                    inner.append(folder / entry.name)
            elif fnmatchcase(entry.name, part):
                matching.append(folder / entry.name)
    return inner, matching, names


def _too_large() -> OSError:
    return OSError(f"the file has more than {FILE_BYTES_MAX} bytes")


@contextmanager
def _folder_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise  # by the folder, with a sentence
        raise OSError((error.strerror or str(error)).lower()) from error
    except (ValueError, RuntimeError) as error:
        raise OSError("the path cannot be the name of a file") from error
