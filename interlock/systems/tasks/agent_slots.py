"""Limits how many agents run at once on this computer: one locked file for each of them.

The file says which agent has the slot, so that this computer finds its agents.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interlock import Settings
from interlock.system.files import PrivateFile

# The note of a task that waits for a slot, and how long it is believed.
SLOT_AWAITED = "slot_awaited"
SLOT_AWAITED_MS = 600_000


@dataclass(frozen=True, slots=True)
class Occupant:
    """The agent that has a slot, or had it last, and the fields of a task that it works on."""

    agent: str
    takes: Mapping[str, Any]


class Slot:
    """The right to run one agent.

    The supervisor receives the descriptor and keeps it open until it ends, which holds the slot.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def give_to(self, agent: str, takes: Mapping[str, Any]) -> None:
        """Write down which agent has the slot."""
        written = json.dumps({"agent": agent, "takes": dict(takes)}).encode()
        os.ftruncate(self.descriptor, 0)
        os.pwrite(self.descriptor, written, 0)

    def close(self) -> None:
        """Release the slot in this process; a child that inherited it still holds it."""
        os.close(self.descriptor)


def take_slot(settings: Settings) -> Slot | None:
    """Return a free slot, or None if all are taken."""
    folder = _folder(settings)
    for number in range(settings.agents_max):
        descriptor = PrivateFile(_file(folder, number)).open()
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            continue
        return Slot(descriptor)
    return None


def occupants(settings: Settings) -> list[Occupant]:
    """Return the agents of this computer's slots. Those that have ended are among them."""
    folder, found = _folder(settings), []
    for number in range(settings.agents_max):
        # A slot that was never used has no file, and one that was taken just now says nothing yet.
        with suppress(OSError, ValueError, KeyError):
            written = json.loads(_file(folder, number).read_bytes())
            found.append(Occupant(str(written["agent"]), dict(written["takes"])))
    return found


def _folder(settings: Settings) -> Path:
    return settings.home.absolute() / "slots"


def _file(folder: Path, number: int) -> Path:
    return folder / f"{number}.lock"
