"""How many agents this machine may run at once: a lock a slot, kept by who fills it to its end."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from interlock.workers.config import Settings


class Slot:
    """One place for an agent on this machine. A child that inherits its descriptor keeps it."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def close(self) -> None:
        """Let go of it here; whoever inherited it still keeps it."""
        os.close(self.descriptor)


def take_slot(settings: Settings) -> Slot | None:
    """Return a free slot, or None where every one is filled."""
    folder = settings.home.absolute() / "slots"
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(settings.agents_max):
        descriptor = os.open(_file(folder, number), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            continue
        return Slot(descriptor)
    return None


def _file(folder: Path, number: int) -> Path:
    return folder / f"{number}.lock"
