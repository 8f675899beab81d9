"""Changes a file that other processes change too: one at a time, and completely or not at all."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file, across processes. The lock is the file `.<name>.lock` beside it.

    A lock on the file itself would be lost when the file is replaced. Raises OSError if the folder
    cannot be written.
    """
    with (path.parent / f".{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def replace_bytes(path: Path, content: bytes, *, mode: int | None = None) -> None:
    """Replace a file's content in one step or not at all. Raises OSError.

    Without a mode the file keeps its own.
    """
    target = path.resolve()
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".new", dir=target.parent)
    fresh = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        fresh.chmod(_mode(target) if mode is None else mode)
        fresh.replace(target)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise


def _mode(path: Path) -> int:
    try:
        return path.stat().st_mode & 0o7777
    except FileNotFoundError:
        return 0o644
