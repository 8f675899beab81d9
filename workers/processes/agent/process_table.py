"""Who runs on this machine, read from /proc; a number alone is never taken for a process."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

DEAD = "ZX"
HALTED = "ZXTtD"


class Seen(NamedTuple):
    """A process as it was when it was looked at. Number and start together name it for good."""

    pid: int
    started: int
    parent: int
    state: str

    @property
    def dead(self) -> bool:
        """Tell whether it has ended and only waits to be reaped."""
        return self.state in DEAD

    @property
    def halted(self) -> bool:
        """Tell whether it can start nothing now: ended, stopped, or asleep inside the kernel."""
        return self.state in HALTED

    def same(self, other: Seen | None) -> bool:
        """Tell whether the other one is this process at another time."""
        return other is not None and (other.pid, other.started) == (self.pid, self.started)


def look(pid: int) -> Seen | None:
    """Return the process with this number, or None where there is none (or no /proc)."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - a Path costs more than the read
            # The command's name may hold anything, even brackets: the last one ends it.
            fields = file.read().rpartition(b")")[2].split()
        return Seen(pid, int(fields[19]), int(fields[1]), fields[0].decode())
    except (OSError, IndexError):
        return None


def newest_first() -> Iterator[Seen]:
    """Yield every process, the youngest first: the youngest is the one about to start another.

    Where there is no /proc there is none to yield.
    """
    try:
        names = os.listdir("/proc")  # noqa: PTH208 - a Path for every process costs time
    except OSError:
        return
    for pid in sorted((int(name) for name in names if name.isdecimal()), reverse=True):
        seen = look(pid)
        if seen is not None:
            yield seen


def send(seen: Seen, *numbers: int) -> None:
    """Signal this process and no other. Who has ended, or is not ours to signal, is let be."""
    if not numbers:
        return
    try:
        # Opened first, compared second: from then on the number may go to a stranger unharmed.
        descriptor = os.pidfd_open(seen.pid)
    except OSError:
        _send_by_number(seen, *numbers)
        return
    try:
        if seen.same(look(seen.pid)):
            for number in numbers:
                with suppress(ProcessLookupError, PermissionError):
                    signal.pidfd_send_signal(descriptor, number)
    finally:
        os.close(descriptor)


def _send_by_number(seen: Seen, *numbers: int) -> None:
    # An old system, or no descriptor to spare: the moment after the comparison has to be risked.
    for number in numbers:
        if seen.same(look(seen.pid)):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(seen.pid, number)


def carries(pid: int, entry: bytes) -> bool:
    """Tell whether a process was started with this `NAME=value` in its environment."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123 - as above
            return entry in file.read().split(b"\0")
    except OSError:
        return False
