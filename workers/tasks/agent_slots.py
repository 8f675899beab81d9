"""Limits how many agents run at once on this computer: one locked file for each of them."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from interlock.workers.config import Settings


class Slot:
    """The right to run one agent.

    The supervisor receives the descriptor and keeps it open until it ends, which holds the slot.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def close(self) -> None:
        """Release the slot in this process; a child that inherited it still holds it."""
        os.close(self.descriptor)


def take_slot(settings: Settings) -> Slot | None:
    """Return a free slot, or None if all are taken."""
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
