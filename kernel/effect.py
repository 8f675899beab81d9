"""What an effect is: work that a state or a row owes, with its limits."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum, auto


class Kind(StrEnum):
    """What ends an effect's entry."""

    STATE = auto()  # its outcome; it is revoked when the record leaves the state
    TRANSITION = auto()  # settling; it is owed whatever happens next
    SPAWN = auto()  # settling; until then the countdown that it fills cannot become empty
    ADVANCE = auto()  # at most one outcome; owed by the commit that empties a countdown


@dataclass(frozen=True, slots=True)
class Effect:
    """Work that is owed, by name, with its limits.

    `lease_ms` is how long a holder may be silent, `grace_ms` how long a revoked holder may take to
    stop, `attempts_max` how many claims are allowed before the stage's exhaustion or quarantine.
    `exclusive` effects of a record run one at a time: they share something, such as a worktree.
    A `kept` one is never published: the process that fires the row holds its lease from the start.
    A `local` one uses files of one computer, the record's host, and runs there.
    A `quick` one only reads and writes the store.
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


# The effects that a record of any machine may owe; those of one system are in its own folder.
RESOLUTION = Effect("resolution", attempts_max=20)
SPAWN = Effect("spawn", attempts_max=20, quick=True)
CASCADE = Effect("cascade", attempts_max=20, quick=True)
NOTIFICATION = Effect("notification", attempts_max=20, quick=True)
