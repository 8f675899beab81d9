"""Keeps folders and files for their owner: no other user of the computer reads what is in them."""

from __future__ import annotations

import logging
import os
import stat
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from interlock.workers.files.atomic import locked, replace_bytes

log = logging.getLogger(__name__)

PRIVATE_FOLDER = 0o700
PRIVATE_FILE = 0o600


class NotPrivateError(Exception):
    """A folder cannot be closed to others. The message says why, and what to choose instead."""


def private_folder(folder: Path) -> Path:
    """Make a folder that only this user can enter, or close one that there is, and return it.

    Raises NotPrivateError for a folder of another user or one that users share, and OSError.
    """
    make_folders(folder)
    found = folder.stat()
    if found.st_uid != os.getuid():
        raise NotPrivateError(
            f"{folder} belongs to another user (id {found.st_uid}), who could read and replace what"
            " is in it: choose a folder of your own"
        )
    if found.st_mode & stat.S_ISVTX:
        raise NotPrivateError(f"{folder} is a folder that users share: choose one of your own")
    if stat.S_IMODE(found.st_mode) != PRIVATE_FOLDER:
        folder.chmod(PRIVATE_FOLDER)
    return folder


def close_folder(folder: Path) -> None:
    """Close a folder that an earlier version may have left open. Log why if that cannot be done."""
    if folder.is_dir():
        try:
            private_folder(folder)
        except (NotPrivateError, OSError) as refusal:
            log.warning("other users of this computer may read what is in a folder: %s", refusal)


def make_folders(folder: Path) -> None:
    """Make a folder and those above it where there are none, each for this user. Raises OSError."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(exist_ok=True, mode=PRIVATE_FOLDER)


@dataclass(frozen=True, slots=True)
class PrivateFile:
    """A file that only its owner may read. Folders that it makes are its owner's alone."""

    path: Path

    def write(self, content: str | bytes) -> None:
        """Replace the whole content in one step, or leave it as it was. Raises OSError.

        The content is never in a file that others may read, not even where such a file was there.
        """
        make_folders(self.path.parent)
        encoded = content.encode() if isinstance(content, str) else content
        replace_bytes(self.path, encoded, mode=PRIVATE_FILE)

    def open(self) -> int:
        """Return a descriptor that reads and writes the file; create it if there is none.

        Raises OSError.
        """
        make_folders(self.path.parent)
        return os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)

    def locked(self) -> AbstractContextManager[None]:
        """Hold the lock of the file, across processes, also while the file is replaced.

        Raises OSError if its folder cannot be written.
        """
        return locked(self.path)
