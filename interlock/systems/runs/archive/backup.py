"""Replaces a file so that a complete version always exists: backs it up, then swaps in the new.

Whenever the writer is killed, the file or its backup is complete.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from interlock.system.files import PrivateFile

MODE = 0o600
IsComplete = Callable[[bytes], bool]


def backup_of(file: Path) -> Path:
    """Return the path of a file's backup."""
    return file.with_name(f"{file.name}.bak")


def write_with_backup(file: Path, content: bytes, *, is_complete: IsComplete) -> bool:
    """Replace a file's content and keep the old content as its backup. Raises OSError.

    Returns whether the old content was kept. If it is incomplete, it is dropped, so that it does
    not replace a good backup.
    """
    target = file.resolve()
    with PrivateFile(target).locked():
        old = target.read_bytes() if target.exists() else None
        backed_up = old is not None and is_complete(old)
        if backed_up and old is not None:
            _replace(backup_of(target), old)
        _replace(target, content)
    return backed_up


def _replace(target: Path, content: bytes) -> None:
    fresh = target.with_name(f"{target.name}.tmp")
    _write(fresh, content)
    os.replace(fresh, target)  # noqa: PTH105 - a test kills the writer at each call of os
    _sync(target.parent)


def _write(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, MODE)
    try:
        left = memoryview(content)
        while left:
            left = left[os.write(descriptor, left) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
