"""Hides sockets from a command in a sandbox.

Whoever sees a socket can connect to it, also where it can write nothing. A socket file is hidden
with its folder, in place of which the command sees another one with the same files: a server that
starts again makes its socket anew, and that would be seen in the folder itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from stat import S_ISDIR, S_ISLNK, S_ISSOCK

# By the path where it is seen, what bubblewrap is told about a mount.
Mounts = dict[Path, tuple[str, ...]]
# The kernel lists each socket that a process of this network has bound, with its path.
_LISTING = Path("/proc/net/unix")
_FIELDS_BEFORE_PATH = 7
# Folders of the home in which programs make their sockets, also after a sandbox was made.
_OF_HOME = (".ssh", ".gnupg", ".docker/desktop", ".docker/run")
_READ_ONLY = ("--ro-bind", "--ro-bind-try")
_BOUND = (*_READ_ONLY, "--bind", "--bind-try", "--dev-bind", "--dev-bind-try")
_BESIDE_SOCKETS = (".pid", ".lock")
# A larger folder would make the command of bubblewrap too long.
_ENTRIES_MAX = 500


def bound_sockets() -> Iterator[Path]:
    """Yield the socket files that processes of this computer have bound, and that are there."""
    with suppress(OSError):
        lines = os.fsdecode(_LISTING.read_bytes()).splitlines()
        named = (line.split(None, _FIELDS_BEFORE_PATH)[_FIELDS_BEFORE_PATH:] for line in lines)
        for name in sorted({"".join(name) for name in named}):
            with suppress(OSError, RuntimeError):
                path = Path(name)
                if path.is_absolute() and S_ISSOCK(path.lstat().st_mode):
                    yield path.parent.resolve() / path.name


def hide_sockets(mounts: Mounts, *, sockets: Iterable[Path], home: Path | None) -> list[Path]:
    """Hide all sockets that the mounts of a closed sandbox show; return folders to make read-only.

    Those in `sockets` need not be there yet. In a folder that the command can write, the file alone
    is hidden.
    """
    read_only = list[Path]()
    of_home = [home / name for name in _OF_HOME] if home else []
    folders = [path.parent for path in sockets] + [path for path in of_home if path.is_dir()]
    for folder in dict.fromkeys((*folders, *(path.parent for path in bound_sockets()))):
        is_read_only = _mount_of(mounts, folder) in _READ_ONLY
        if is_read_only and (seen := _without_sockets(folder)) is not None:
            # What is mounted in the folder already stays.
            mounts |= {**seen, **mounts, folder: seen[folder]}
            read_only.append(folder)
    for path in (*sockets, *bound_sockets()):
        if _mount_of(mounts, path) in _BOUND and path.exists():
            mounts[path] = ("--ro-bind", os.devnull, str(path))
    return read_only


def hide_of_open(mounts: Mounts, sockets: Iterable[Path]) -> None:
    """Hide sockets from an open sandbox: with their folder, if that has nothing else."""
    for path in sockets:
        with suppress(OSError):
            entries = [*path.parent.iterdir()]
            if all(entry.is_socket() or entry.suffix in _BESIDE_SOCKETS for entry in entries):
                mounts[path.parent] = ("--tmpfs", str(path.parent))
            elif path.exists():
                mounts[path] = ("--ro-bind", os.devnull, str(path))


def entries_of(folder: Path) -> Mounts:
    """Return an own folder in which all that the real one has can be read, but for sockets."""
    mounts: Mounts = {folder: ("--tmpfs", str(folder))}
    for entry in os.scandir(folder):
        path = folder / entry.name
        with suppress(OSError):
            mode = path.lstat().st_mode
            if S_ISLNK(mode):
                mounts[path] = ("--symlink", str(path.readlink()), str(path))
            elif not S_ISSOCK(mode):
                path.stat()  # a file system whose server is gone cannot be shown
                mounts[path] = ("--ro-bind-try", str(path), str(path))
    return mounts


def _without_sockets(folder: Path) -> Mounts | None:
    """Return a folder as `entries_of` does; None for one that is too large, or cannot be read."""
    with suppress(OSError):
        if folder != folder.parent and S_ISDIR(folder.lstat().st_mode):
            found = entries_of(folder)
            return found if len(found) <= _ENTRIES_MAX else None
    return None


def _mount_of(mounts: Mounts, path: Path) -> str:
    """Return the kind of the mount in which a path is; '' for one that shows another path."""
    for folder in (path, *path.parents):
        if how := mounts.get(folder):
            kind, *_, source, target = ("", *how)[-3:]
            return kind if source == target else ""
    return ""
