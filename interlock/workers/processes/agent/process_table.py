"""Reads the running processes from /proc, and signals them without mistaking a reused id."""

from __future__ import annotations

import _signal as signal
import os

# Not imported when it runs: the comment in `watchdog` says why.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

DEAD = "ZX"
HALTED = "ZXTtD"
_STAT_BYTES = 4_096


class ProcessInfo:
    """A process as it was when it was read. Its id and start time identify it for ever."""

    # A named tuple or a dataclass would import modules, which delays the start of each agent.
    __slots__ = ("parent", "pid", "started", "state")

    def __init__(self, pid: int, started: int, parent: int, state: str) -> None:
        self.pid, self.started, self.parent, self.state = pid, started, parent, state

    @property
    def has_ended(self) -> bool:
        """Whether it has ended and waits to be reaped."""
        return self.state in DEAD

    @property
    def is_halted(self) -> bool:
        """Whether it cannot start a process now: ended, stopped, or asleep in the kernel."""
        return self.state in HALTED

    def is_same(self, other: ProcessInfo | None) -> bool:
        """Whether the other one is this process at another time."""
        return other is not None and (other.pid, other.started) == (self.pid, self.started)


def read_process(pid: int) -> ProcessInfo | None:
    """Return the process with this id; None if there is none, or no /proc."""
    try:
        # Read without a file object, which would cost more than the read.
        descriptor = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
        try:
            # The command's name may have brackets in it; the last one ends it.
            fields = os.read(descriptor, _STAT_BYTES).rpartition(b")")[2].split()
        finally:
            os.close(descriptor)
        return ProcessInfo(pid, int(fields[19]), int(fields[1]), fields[0].decode())
    except (OSError, IndexError):
        return None


def newest_processes() -> Iterator[ProcessInfo]:
    """Yield every process, the newest first, because the newest is about to start another.

    Without /proc it yields none.
    """
    try:
        names = os.listdir("/proc")  # noqa: PTH208 - a Path for every process costs time
    except OSError:
        return
    for pid in sorted((int(name) for name in names if name.isdecimal()), reverse=True):
        process = read_process(pid)
        if process is not None:
            yield process


def send_signals(process: ProcessInfo, *signals: int) -> None:
    """Signal this process and no other. Ignore one that has ended or that we may not signal."""
    if not signals:
        return
    try:
        # Opened before it is compared: the descriptor stays with this process if the id is reused.
        descriptor = os.pidfd_open(process.pid)
    except OSError:
        _send_by_number(process, *signals)
        return
    try:
        if process.is_same(read_process(process.pid)):
            for number in signals:
                signal.pidfd_send_signal(descriptor, number)
    except (ProcessLookupError, PermissionError):
        return
    finally:
        os.close(descriptor)


def _send_by_number(process: ProcessInfo, *signals: int) -> None:
    # An old system or no free descriptor: the id may be reused just after the comparison.
    for number in signals:
        try:
            if process.is_same(read_process(process.pid)):
                os.kill(process.pid, number)
        except (ProcessLookupError, PermissionError):
            return


def has_variable(pid: int, entry: bytes) -> bool:
    """Whether a process was started with this `NAME=value` in its environment."""
    return b"\0%b\0" % entry in b"\0%b\0" % environment_of(pid)


def environment_of(pid: int) -> bytes:
    """Return the `NAME=value` that a process was started with, each before a null byte.

    Returns nothing of a process that has ended, or whose environment we may not read.
    """
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123 - a Path takes longer
            return file.read()
    except OSError:
        return b""
