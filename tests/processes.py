"""Finds processes, even if their parent has ended, tells whether they live, and kills them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")
# Positions in /proc/N/stat, counted after the name.
STATE, PARENT, THREADS, START = 0, 1, 17, 19


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
    """Whether a process has a thread that runs.

    /proc calls a process a zombie as soon as its first thread has ended, though others may run on.
    Until the last has ended, its sockets stay open, and a broker may send them messages that nobody
    reads.
    """
    fields = stat_of(process_id)
    return bool(fields) and (fields[STATE] not in {"Z", "X"} or int(fields[THREADS]) > 1)


def start_of(process_id: int) -> int:
    """Return when a process was started, in ticks since the boot; -1 if it is gone.

    Another process may get its id soon: with many short ones the system comes round in minutes.
    """
    fields = stat_of(process_id)
    return int(fields[START]) if fields else -1


def parent_of(process_id: int) -> int:
    """Return a process's parent; 0 if the process is gone."""
    fields = stat_of(process_id)
    return int(fields[PARENT]) if fields else 0


def stat_of(process_id: int) -> list[str]:
    """Return the fields of /proc/N/stat after the name, or none if the process is gone."""
    try:
        return (PROC / str(process_id) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def still_runs(process_id: int, started: int) -> bool:
    """Whether a process is alive. Its start tells it from a later process with the same id."""
    return is_alive(process_id) and start_of(process_id) == started


def kill_group(process_id: int, started: int) -> None:
    """Kill the group that a process leads. A process just forked leads none yet: kill it alone."""
    if start_of(process_id) not in {started, -1}:
        return  # another process has the id, which it only gets if nothing is left of the group
    try:
        os.killpg(process_id, signal.SIGKILL)
    except ProcessLookupError:
        if still_runs(process_id, started):
            with suppress(ProcessLookupError):
                os.kill(process_id, signal.SIGKILL)


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
