"""Says which program listens on a port of this computer, as far as this user may see that."""

from __future__ import annotations

import os
import pwd
import shlex
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")
_TABLES = (_PROC / "net" / "tcp", _PROC / "net" / "tcp6")
_LISTENS = "0A"
_COMMAND_LENGTH_MAX = 60


def user_of_port(port: int) -> str:
    """Return who listens on a port, as `process 7 (python3 app.py)`; '' where that is not seen.

    Of another user's program only the user is seen.
    """
    for inode, user_id in _listeners(port):
        for process in _PROC.glob("[0-9]*"):
            if _has_open(process, f"socket:[{inode}]"):
                return f"process {process.name} ({_command(process)})"
        if user_id != os.getuid():
            return f"a program of the user {user_name(user_id)}"
    return ""


def in_use(port: int) -> str:
    """Return a sentence that a port is in use, and by whom if that is seen."""
    user = user_of_port(port)
    return f"port {port} is in use{user and f' by {user}'}"


def _listeners(port: int) -> Iterator[tuple[str, int]]:
    """Yield the inode and the user's id of each socket that listens on a port."""
    for table in _TABLES:
        with suppress(OSError):
            for line in table.read_text("ascii").splitlines()[1:]:
                _, local, _, state, _, _, _, user_id, _, inode, *_ = line.split()
                if state == _LISTENS and int(local.rpartition(":")[2], 16) == port:
                    yield inode, int(user_id)


def _has_open(process: Path, target: str) -> bool:
    # A process may end meanwhile, and those of other users show nothing.
    with suppress(OSError):
        for entry in (process / "fd").iterdir():
            with suppress(OSError):
                if os.readlink(entry) == target:  # noqa: PTH115 - it is no path
                    return True
    return False


def _command(process: Path) -> str:
    with suppress(OSError):
        words = os.fsdecode((process / "cmdline").read_bytes()).rstrip("\0").split("\0")
        command = shlex.join(words)
        is_long = len(command) > _COMMAND_LENGTH_MAX
        return f"{command[:_COMMAND_LENGTH_MAX]}…" if is_long else command
    return "its command is not known"


def user_name(user_id: int) -> str:
    """Return the name of a user of this computer, and the id of one who has none."""
    try:
        return pwd.getpwuid(user_id).pw_name
    except KeyError:
        return str(user_id)
