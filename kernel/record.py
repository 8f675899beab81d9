"""A record as it is stored, and what its id says; it never changes itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NewType
from zlib import crc32

from interlock.kernel.effect import Kind
from interlock.kernel.errors import InvalidIdError

RecordId = NewType("RecordId", str)
Version = NewType("Version", int)

PARTITIONS = 64
ID_LENGTH_MAX = 200
ID_DEPTH_MAX = 8
CHILDREN_MAX = 10_000
_SEGMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~-]*")


def record_id(text: str) -> RecordId:
    """Check an id: segments of letters, digits and `._~-`, joined by `/` from the root down."""
    segments = text.split("/")
    if len(text) > ID_LENGTH_MAX:
        raise InvalidIdError(text[:40] + "...", f"longer than {ID_LENGTH_MAX} characters")
    if len(segments) > ID_DEPTH_MAX:
        raise InvalidIdError(text, f"deeper than {ID_DEPTH_MAX} levels")
    if not all(_SEGMENT.fullmatch(segment) for segment in segments):
        raise InvalidIdError(text, "use letters, digits and ._~- with / between parent and child")
    return RecordId(text)


def ancestors(of: str) -> tuple[RecordId, ...]:
    """Return the ids above a record, its root first."""
    segments = of.split("/")
    return tuple(RecordId("/".join(segments[:n])) for n in range(1, len(segments)))


def parent_of(of: str) -> RecordId | None:
    """Return the id right above, or None for a root."""
    head, slash, _ = of.rpartition("/")
    return RecordId(head) if slash else None


def root_of(of: str) -> str:
    """Return the first segment of an id, which names its family."""
    return of.partition("/")[0]


@lru_cache(maxsize=4_096)
def partition_of(of: str) -> int:
    """Return the partition of a record's whole family, 0 to 63."""
    return crc32(root_of(of).encode()) % PARTITIONS


@dataclass(frozen=True, slots=True)
class Entry:
    """A live effect of a record, as PROTOCOL section 1 has it. Times are the store's ms."""

    suffix: str
    name: str
    kind: Kind
    state: str
    token: str
    holder: str
    attempts: int
    attempts_max: int
    lease_until: int
    kill_by: int
    carried: bool
    posted: int = 0
    exclusive: bool = False
    countdown: str = ""

    def key(self, of: str) -> str:
        """Return the effect's id E, which is also its idempotency key."""
        return f"{of}:{self.suffix}"


@dataclass(frozen=True, slots=True)
class TimerEntry:
    """A timer of a record: when it is due (the store's ms) and since which version it runs."""

    name: str
    due_at: int
    born: int
    left_ms: int | None
    fired: int


@dataclass(frozen=True, slots=True)
class Record:
    """One lifecycle: where it stands, and its data. `entered` is the version of the last entry."""

    id: RecordId
    machine: str
    state: str
    version: Version
    data: Mapping[str, Any]
    entered: Version = Version(1)
    schema: int = 1
    since_ms: int = 0
    created_ms: int = 0
    priority: int = 5
    paused: bool = False
    counted: str = ""  # the parent's countdown that it is counted in: <name>:<generation>
    entries: tuple[Entry, ...] = ()
    timers: tuple[TimerEntry, ...] = ()
    counters: Mapping[str, int] = field(default_factory=dict)

    @property
    def parent(self) -> RecordId | None:
        """The id right above, or None."""
        return parent_of(self.id)

    def spawning(self, suffix: str) -> str:
        """Return the name of the countdown that this effect fills, or ''."""
        fills = (e.countdown for e in self.entries if e.suffix == suffix and e.kind is Kind.SPAWN)
        return next(fills, "")

    @property
    def proposal(self) -> str:
        """What a decision about the present stay in this state must name."""
        return f"{self.id}:{self.entered}"


def split_key(effect_key: str) -> tuple[RecordId, str]:
    """Split an effect's id into its record and the rest."""
    head, colon, suffix = effect_key.partition(":")
    if not colon or suffix.count(":") != 1:
        raise InvalidIdError(effect_key, "an effect's id is <record>:<version>.<n>:<nonce>")
    return record_id(head), suffix
