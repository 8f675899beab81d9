"""One file that is never lost: a backup first, then a new one that takes its place at once.

Whenever its writer is killed, the file or its backup is there whole. What is in it, it does not
know.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from interlock.workers.files.atomic import locked

MODE = 0o600
Whole = Callable[[bytes], bool]


def backup_of(file: Path) -> Path:
    """Return where the content before the last one is kept."""
    return file.with_name(f"{file.name}.bak")


def write_kept(file: Path, content: bytes, *, is_whole: Whole) -> bool:
    """Replace a file's content and keep the old one beside it. Raises OSError.

    Returns whether the old one was kept: one that is not whole takes no good backup's place.
    """
    target = file.resolve()
    with locked(target):
        old = target.read_bytes() if target.exists() else None
        backed_up = old is not None and is_whole(old)
        if backed_up and old is not None:
            _put(backup_of(target), old)
        _put(target, content)
    return backed_up


def _put(target: Path, content: bytes) -> None:
    fresh = target.with_name(f"{target.name}.tmp")
    _write(fresh, content)
    os.replace(fresh, target)  # noqa: PTH105 - each step of this is a call of its own
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
