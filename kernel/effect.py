"""The effects a machine may owe, and the limits of each; it never runs one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum, auto


class Kind(StrEnum):
    """What ends an effect's entry."""

    STATE = auto()  # its outcome; it is revoked when the record leaves the state
    TRANSITION = auto()  # settling; it is owed whatever happens next
    SPAWN = auto()  # settling; it holds the sentinel of the countdown that it fills
    ADVANCE = auto()  # at most one outcome; owed by whoever empties a countdown


@dataclass(frozen=True, slots=True)
class Effect:
    """Work that is owed, by name, with its limits.

    `lease_ms` is how long a holder may be silent, `grace_ms` how long a revoked holder may take to
    stop, `attempts_max` how many claims it gets before its stage's exhaustion or quarantine.
    `exclusive` effects of a record share a place, such as a worktree, and are there one at a time.
    A `kept` one is leased from its birth by who brought the record there, and never published.
    A `local` one is about files of one machine, which its record names, and runs there.
    A `quick` one does nothing but ask and tell the store.
    A `long` one may hold a thread of its worker for hours: deployments give it workers of its own.
    """

    name: str
    lease_ms: int = 30_000
    grace_ms: int = 10_000
    attempts_max: int = 3
    exclusive: bool = False
    kept: bool = False
    local: bool = False
    quick: bool = False
    long: bool = False

    def __str__(self) -> str:
        return self.name


# What a record of any machine may owe; what only one system owes is in its own folder.
RESOLUTION = Effect("resolution", attempts_max=20)
SPAWN = Effect("spawn", attempts_max=20, quick=True)
CASCADE = Effect("cascade", attempts_max=20, quick=True)
TELL = Effect("tell", attempts_max=20, quick=True)
