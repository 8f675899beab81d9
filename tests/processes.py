"""Finds processes by a variable in their environment, even if their parent has ended."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")


def marked(name: str, value: str) -> dict[int, str]:
    """Return the live processes that were started with name=value, and their commands."""
    mark = f"{name}={value}".encode()
    found = {}
    for folder in PROC.glob("[0-9]*"):
        with suppress(OSError):
            if mark in (folder / "environ").read_bytes().split(b"\0") and is_alive(
                int(folder.name)
            ):
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                found[int(folder.name)] = command.strip()
    return {pid: command for pid, command in found.items() if pid != os.getpid()}


def is_alive(process_id: int) -> bool:
    """Whether a thread of a process still runs; a zombie has none.

    The threads of a killed process end one after the other. Until the last has ended, the process
    keeps its connections open, and a message that is sent to one of them is lost.
    """
    folder = PROC / str(process_id)
    try:
        state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
        # The first thread is listed even after its end, until the parent has waited for it.
        return state not in {"Z", "X"} or len(list((folder / "task").iterdir())) > 1
    except OSError:
        return False


def start_of(process_id: int) -> int:
    """Return when a process was started, in ticks since the boot; -1 if it is gone.

    Another process may get its id soon: with many short ones the system comes round in minutes.
    """
    with suppress(OSError):
        stat = (PROC / str(process_id) / "stat").read_text()
        return int(stat.rpartition(")")[2].split()[19])
    return -1


def still_runs(process_id: int, started: int) -> bool:
    """Whether the process that had this id and this start is alive."""
    return is_alive(process_id) and start_of(process_id) == started


def kill_group(process_id: int, started: int) -> None:
    """Kill a process, which makes a group of its own as it begins, and all others in the group."""
    try:
        os.killpg(process_id, signal.SIGKILL)
    except ProcessLookupError:
        if still_runs(process_id, started):  # it has not made its group yet
            os.kill(process_id, signal.SIGKILL)


def parent_of(process_id: int) -> int:
    """Return a process's parent; 0 if the process is gone."""
    with suppress(OSError):
        stat = (PROC / str(process_id) / "stat").read_text()
        return int(stat.rpartition(")")[2].split()[1])
    return 0


def kill_marked(name: str, value: str, *, patience_s: float) -> dict[int, str]:
    """Give the marked processes time to end; kill and return the others."""
    deadline = time.monotonic() + patience_s
    while (left := marked(name, value)) and time.monotonic() < deadline:
        time.sleep(0.02)
    for process_id in left:
        with suppress(ProcessLookupError):
            os.kill(process_id, signal.SIGKILL)
    return left


def processes(fits: Callable[[int, bytes], bool]) -> list[int]:
    """Return the ids of the processes for which `fits(id, command line)` is true."""
    found = []
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                if fits(int(entry.name), (entry / "cmdline").read_bytes()):
                    found.append(int(entry.name))
    return found
