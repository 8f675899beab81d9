"""Reads and replaces files in a folder where an agent may have written anything.

It may have left a link that leads out of the folder, a pipe at which a reader waits for ever, or a
file of any size. The folder itself must lie where no agent can replace it.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import IO

from interlock.workers.files.private import PRIVATE_FILE, PRIVATE_FOLDER

FILE_BYTES_MAX = 1024**3
_REF_BYTES_MAX = 1_024
_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def is_folder(path: Path) -> bool:
    """Tell whether a path is a folder, and no link to one."""
    with suppress(OSError):
        return S_ISDIR(path.lstat().st_mode)
    return False


def is_file(path: Path) -> bool:
    """Tell whether a path is a plain file, and no link to one."""
    with suppress(OSError):
        return S_ISREG(path.lstat().st_mode)
    return False


def content(file: Path, bytes_max: int = FILE_BYTES_MAX) -> bytes:
    """Return the beginning of a plain file; b'' if there is none, or something else."""
    try:
        source = opened(file)
    except OSError:
        return b""
    with source:
        return source.read(bytes_max) if S_ISREG(os.fstat(source.fileno()).st_mode) else b""


def opened(file: Path) -> IO[bytes]:
    """Open a file to read it, and no link to one. Raises OSError."""
    return os.fdopen(os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb")


def first_line(file: Path) -> str:
    """Return the text of a file of one short line, such as a ref; '' if it is none."""
    return os.fsdecode(content(file, _REF_BYTES_MAX)).strip()


def commit_in(file: Path) -> str | None:
    """Return the commit id in the file of a ref, if there is one."""
    text = first_line(file)
    return text if is_id(text) else None


def is_id(text: str) -> bool:
    """Tell whether a text is the whole id of an object."""
    return _ID.fullmatch(text) is not None


def plain_files(folder: Path) -> Iterator[Path]:
    """Yield the plain files in a folder and below it, sorted; none if the folder is a link."""
    if not is_folder(folder):
        return
    for inside, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            if is_file(file := Path(inside, name)):
                yield file


def clear(path: Path) -> None:
    """Delete whatever is at a path; a link is deleted, and what it leads to stays."""
    if is_folder(path):
        make_deletable(path)
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def replace_file(file: Path, data: bytes) -> None:
    """Write a file for its owner only, in place of whatever is there."""
    clear(file)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, PRIVATE_FILE)
    with os.fdopen(descriptor, "wb") as written:
        written.write(data)


def keep_folders(inside: Path, names: Iterable[str]) -> None:
    """Have folders on which a sandbox mounts others, in place of links that an agent made there.

    An agent that works meanwhile leads this call nowhere else.
    """
    options = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
    for name in names:
        folder = os.open(inside, options)
        for part in Path(name).parts:
            try:
                below = os.open(part, options, dir_fd=folder)
            except OSError:
                with suppress(FileNotFoundError):
                    os.unlink(part, dir_fd=folder)
                os.mkdir(part, PRIVATE_FOLDER, dir_fd=folder)
                below = os.open(part, options, dir_fd=folder)
            finally:
                os.close(folder)
            folder = below
        os.close(folder)


def keep_files(inside: Path, names: Iterable[str]) -> None:
    """Have plain files on which a sandbox mounts others."""
    for name in names:
        if not is_file(inside / name):
            replace_file(inside / name, b"")


def make_deletable(folder: Path) -> None:
    """Make all folders writable: some tools write-protect theirs, and a deletion would stop."""
    folder.chmod(folder.stat().st_mode | 0o700)
    for inside, names, _ in os.walk(folder):
        for name in names:
            path = Path(inside, name)
            # A folder of another user stays as it is; who deletes it then reports it.
            with suppress(PermissionError):
                if not path.is_symlink():
                    path.chmod(path.stat().st_mode | 0o700)
