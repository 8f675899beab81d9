"""Effects: the kinds of work that records owe, each with its limits."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum, auto


class Kind(StrEnum):
    """Why a record owes an effect, and so what ends it."""

    STATE = auto()  # ended by its outcome, or revoked when the record leaves the state
    TRANSITION = auto()  # ended by settling, whatever state the record enters meanwhile
    SPAWN = auto()  # ended by settling; until then the countdown that it fills cannot end
    ADVANCE = auto()  # of an ended countdown: ended by its outcome or by settling


@dataclass(frozen=True, slots=True)
class Effect:
    """A kind of work that a record may owe, with its limits."""

    name: str
    lease_ms: int = 30_000  # how long its holder may be silent
    grace_ms: int = 10_000  # how long a holder may take to stop once its lease has ended
    timeout_ms: int = 0  # how long an attempt may take, from its claim; 0: as long as it takes
    attempts_max: int = 3  # how often it is claimed before it is exhausted or quarantined
    retry_delay_ms: int = 1_000  # after the first failure; it doubles, up to ten minutes
    exclusive: bool = False  # a record's exclusive effects share something: they run one at a time
    kept: bool = False  # never published: the process that fires the row holds it from the start
    local: bool = False  # uses files of the record's host, and runs there
    quick: bool = False  # only reads and writes the store
    # Workers of its own do it: it may wait long for something outside, or may not wait for others.
    pool: str = ""
    queue: str = ""  # whose messages share a queue; '' is one of its own (`effect_queue`)
    concurrency: int = 0  # how many of it are at work at most, per `slot_key` of the stage; 0: any

    def __str__(self) -> str:
        return self.name


# The effects that a record of any machine may owe; those of one system are in its own folder.
RESOLUTION = Effect("resolution", attempts_max=20)
SPAWN = Effect("spawn", attempts_max=20, quick=True)
CASCADE = Effect("cascade", attempts_max=20, quick=True, pool="families")
NOTIFICATION = Effect("notification", attempts_max=20, quick=True)
AWAITING = Effect("awaiting", attempts_max=20, quick=True)
_COMMON = (RESOLUTION, SPAWN, CASCADE, NOTIFICATION, AWAITING)
OF_ANY_MACHINE = {each.name: each for each in _COMMON}
