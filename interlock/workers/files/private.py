"""Keeps folders and files for their owner: no other user of the computer reads what is in them."""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path

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


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read; make the folders above it. Raises OSError.

    The text never stands in a file that others may read, also where the file was there before.
    """
    make_folders(path.parent)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, PRIVATE_FILE)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        os.fchmod(descriptor, PRIVATE_FILE)
        file.truncate()
        file.write(text)
