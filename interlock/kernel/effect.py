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


class Sweeper(str):
    """The name of a sweep of a system, among those who may fire a row."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Effect:
    """A kind of work that a record may owe, with its limits.

    Its holder may be silent for `lease_ms`, and may take `grace_ms` to stop after that. An attempt
    may take `timeout_ms` from the call of its handler; 0: as long as it takes. It is claimed
    `attempts_max` times before it is exhausted or quarantined, again after `retry_delay_ms`, which
    doubles with each attempt, up to ten minutes; interlock/kernel/README.md says which attempts
    count. A record's `exclusive` effects share something, and run one at a
    time. A `kept` one is never published: the process that fires the row holds it from the start. A
    `local` one uses files of the computer that `Placement.host` of its machine names, and runs on
    that. A `quick` one only reads and writes the store. With a `pool`, workers of that name do it:
    it may wait long for something outside, or may not wait for others. Effects with the same
    `queue` share its messages' queue; with '' it has one of its own. At most `concurrency` of it
    are at work, by `slot_key` of the stage; 0: any number.
    """

    name: str
    lease_ms: int = 30_000
    grace_ms: int = 10_000
    timeout_ms: int = 0
    attempts_max: int = 3
    retry_delay_ms: int = 1_000
    exclusive: bool = False
    kept: bool = False
    local: bool = False
    quick: bool = False
    pool: str = ""
    queue: str = ""
    concurrency: int = 0

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
