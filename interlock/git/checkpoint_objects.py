"""Writes the objects of checkpoints into their git repository: contents, folders and commits.

An object is a file, compressed, and named by the hash of its head and content. It is written under
another name and renamed, so that no incomplete one is found. Git could write them too, but would
need five processes for each checkpoint, and one costs more than to write several small files.
Only git reads objects and moves branches.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO

from interlock.git.repository import Identity

_FILE = "object"
# As git writes objects: nobody may change one, and the fastest compression is enough.
_MODE = 0o444
_COMPRESSION = zlib.Z_BEST_SPEED


class ObjectKind(StrEnum):
    """The kind of an object, as git names it."""

    BLOB = "blob"
    COMMIT = "commit"
    TREE = "tree"


def object_head(kind: ObjectKind, size: int) -> bytes:
    """Return what is before a content of this many bytes when it is hashed and stored."""
    return f"{kind} {size}\0".encode()


def object_hash(kind: ObjectKind, content: bytes) -> str:
    """Return the hash that git gives an object."""
    head = object_head(kind, len(content))
    return hashlib.sha1(head + content, usedforsecurity=False).hexdigest()


def commit_content(
    tree: str, parent: str | None, message: bytes, *, identity: Identity, at_s: int
) -> bytes:
    """Return the content of a commit; without a parent it is the first of its repository.

    `at_s` is its time in seconds since 1970.
    """
    by = f"{identity.name} <{identity.email}> {at_s} +0000"
    lines = [f"tree {tree}", f"author {by}", f"committer {by}", "", ""]
    if parent:
        lines.insert(1, f"parent {parent}")
    return "\n".join(lines).encode() + message


class ObjectWriteError(OSError):
    """An object cannot be written, for example to a full disk. Correct that, then repeat."""


class ObjectDraft:
    """An object that is being written; `begin` starts it anew if a file changed meanwhile.

    Each call raises ObjectWriteError, so that who reads the content knows which file is at fault.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._compressor = zlib.compressobj(_COMPRESSION)

    def begin(self, head: bytes) -> None:
        """Forget what was written, and write the head."""
        with _write_errors():
            self._file.seek(0)
            self._file.truncate()
        self._compressor = zlib.compressobj(_COMPRESSION)
        self.write(head)

    def write(self, content: bytes) -> None:
        """Write the next part of the content."""
        with _write_errors():
            self._file.write(self._compressor.compress(content))

    def end(self) -> None:
        """Write what the compression still holds back, and protect the file from changes."""
        with _write_errors():
            self._file.write(self._compressor.flush())
            self._file.flush()
            os.fchmod(self._file.fileno(), _MODE)


@dataclass(frozen=True, slots=True)
class ObjectFolder:
    """The objects of a repository. `scratch` is a folder beside them for incomplete objects."""

    folder: Path
    scratch: Path

    def has(self, sha: str) -> bool:
        """Tell whether an object has a file of its own, as it has until a `git gc` packs it.

        A power loss can leave an empty file, which is no object.
        """
        try:
            return self._file(sha).stat().st_size > 0
        except FileNotFoundError:
            return False

    def put(self, kind: ObjectKind, content: bytes) -> str:
        """Write an object unless it is there, and return its hash. Raises ObjectWriteError."""
        sha = object_hash(kind, content)
        if not self.has(sha):
            with self.draft() as draft:
                draft.begin(object_head(kind, len(content)))
                draft.write(content)
                self.keep(draft, sha)
        return sha

    @contextmanager
    def draft(self) -> Iterator[ObjectDraft]:
        """Open a new object, which is not in the repository until it is kept.

        Raises ObjectWriteError, also for an OSError within the block.
        """
        # The file is closed within it, which writes the rest.
        with _write_errors(), (self.scratch / _FILE).open("wb") as file:
            yield ObjectDraft(file)

    def keep(self, draft: ObjectDraft, sha: str) -> None:
        """Add the object that was written, by its hash, to the repository. Raises OSError."""
        draft.end()
        file = self._file(sha)
        file.parent.mkdir(parents=True, exist_ok=True)
        (self.scratch / _FILE).rename(file)

    def _file(self, sha: str) -> Path:
        return self.folder / sha[:2] / sha[2:]


@contextmanager
def _write_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ObjectWriteError(error.errno, error.strerror) from error
