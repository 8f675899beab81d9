"""The folder of a deployment on one computer: one process uses it at a time."""

from __future__ import annotations

import fcntl
import itertools
import os
import secrets
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from interlock.workers.config import PROJECT_HOME, SetupError
from interlock.workers.files.private import (
    PRIVATE_FOLDER,
    NotPrivateError,
    PrivateFile,
    private_folder,
)
from interlock.workers.terminal import screen
from interlock.workers.up_file import LOCK_FILE, UP_FILE

FOLDERS_FILE = "folders.txt"  # the folders that systems make in a home, each in a line
LOCK_ATTEMPTS = 10
LOCK_POLL_S = 0.05


class HomeTakenError(SetupError):
    """Another process runs a deployment in the folder. Stop it, or choose another folder."""

    def __init__(self, home: Path, process_id: str) -> None:
        super().__init__(
            f"process {process_id} runs Interlock in {home} already: stop it, or choose another "
            "folder with INTERLOCK_HOME"
        )
        self.home = home


def lock_home(home: Path) -> int:
    """Return a descriptor that locks the folder until it is closed. Raises HomeTakenError."""
    lock = os.open(home / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if not _locked(lock):
        process_id = os.read(lock, 20).decode().strip()
        os.close(lock)
        raise HomeTakenError(home, process_id)
    os.ftruncate(lock, 0)
    os.write(lock, f"{os.getpid()}\n".encode())
    # Commands believe this file from now on: it must not be one that another process has left.
    (home / UP_FILE).unlink(missing_ok=True)
    return lock


def _locked(lock: int) -> bool:
    """Lock the file, and return whether that was possible.

    It is tried more than once: a command that asks whether `up` runs shares the lock for a moment.
    """
    for _ in range(LOCK_ATTEMPTS):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(LOCK_POLL_S)
        else:
            return True
    return False


class HomeWatch:
    """Notices that somebody moves or deletes the home of a running deployment."""

    def __init__(self, home: Path, lock: int) -> None:
        """`lock` is the descriptor that `lock_home` returned."""
        self._home, self._lock = home, lock
        self._is_there = True

    def look(self) -> str | None:
        """Return a sentence if the home has gone since the last look."""
        was_there, self._is_there = self._is_there, False
        with suppress(OSError):
            found = (self._home / LOCK_FILE).stat()
            self._is_there = os.path.samestat(found, os.fstat(self._lock))
        if self._is_there or not was_there:
            return None
        place = self._place()
        went = f"was moved to {place}" if place else "was moved or deleted"
        there = " there" if place else ""
        return (
            f"{self._home} {went}: commands, and processes that start anew, do not find it; move it"
            f" back, or end this `up` and start one{there}"
        )

    def _place(self) -> Path | None:
        """Return where the home is now; None where the system does not show it."""
        with suppress(OSError):
            file = Path(os.readlink(f"/proc/self/fd/{self._lock}"))  # noqa: PTH115 - it may be gone
            return file.parent if file.exists() else None
        return None


def own_folder(home: Path) -> None:
    """Make a home that no other user can enter, or close one that there is. Raises SetupError."""
    try:
        private_folder(home)
    except NotPrivateError as refusal:
        raise SetupError(f"{refusal} (INTERLOCK_HOME)") from refusal
    ignored = home / ".gitignore"
    if PROJECT_HOME in home.parts and not ignored.exists():
        # The repository of the project shows nothing of the folder as new files.
        ignored.write_text("*\n", "utf-8")


def note_folders(home: Path, folders: Iterable[str]) -> None:
    """Keep which folders systems make in a home, for commands that do not run these systems."""
    known = dict.fromkeys((*noted_folders(home), *folders))
    PrivateFile(home / FOLDERS_FILE).write("".join(f"{name}\n" for name in known))


def noted_folders(home: Path) -> list[str]:
    """Return the folders that systems have made in a home; none is elsewhere."""
    with suppress(FileNotFoundError):
        names = (home / FOLDERS_FILE).read_text("utf-8").splitlines()
        return [name for name in names if name not in ("", "..") and Path(name).name == name]
    return []


def new_home(folder: Path) -> Path:
    """Make the folder of a demonstration, with a number if there are earlier ones, and return it.

    Earlier ones stay: their stores are kept, and `interlock up` may run in one of them.
    """
    home = folder = folder.absolute()
    own_folder(folder.parent)
    for number in itertools.count(2):
        with suppress(FileExistsError):
            home.mkdir(mode=PRIVATE_FOLDER)
            break
        home = folder.with_name(f"{folder.name}-{number}")
    if home != folder:
        screen.notice(f"{folder} is kept as it is; this one is in {home}")
    return home


def kept_secret(file: Path) -> str:
    """Return the secret in a file that only this user can read. Where there is none, make one."""
    with suppress(FileNotFoundError):
        if kept := file.read_text("utf-8").strip():
            return kept
    secret = secrets.token_urlsafe(32)
    PrivateFile(file).write(f"{secret}\n")
    return secret
