"""A record as it is stored, and what follows from its id."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Generic, NewType
from zlib import crc32

from typing_extensions import TypeVar

from interlock.kernel.effect import Kind
from interlock.kernel.errors import InvalidIdError
from interlock.kernel.shortened import shortened

RecordId = NewType("RecordId", str)
Version = NewType("Version", int)
# What the data of a record is: a TypedDict of its machine, in the code of its system.
D = TypeVar("D", bound=Mapping[str, Any], default=Any)

PARTITIONS = 64
ID_LENGTH_MAX = 200
ID_DEPTH_MAX = 8
PRIORITY_LAST = 9  # 0 is first
PRIORITY_DEFAULT = 5
RETRY = ":retry:"  # after the record's id, in the name of the question about its effects
PERSON = "@person"  # the holder of an effect while a person has to remove what is in its way
SLOT = "@slot"  # the holder of an effect while it waits for a slot
_SEGMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~-]*")
_CHILD = re.compile(r"/(\d+)\.(\d+)$")


def record_id(text: str) -> RecordId:
    """Check an id: segments of letters, digits and `._~-`, joined by `/` from the root down."""
    segments = text.split("/")
    if len(text) > ID_LENGTH_MAX:
        raise InvalidIdError(shortened(text, 40), f"longer than {ID_LENGTH_MAX} characters")
    if len(segments) > ID_DEPTH_MAX:
        raise InvalidIdError(text, f"deeper than {ID_DEPTH_MAX} levels")
    if not all(_SEGMENT.fullmatch(segment) for segment in segments):
        raise InvalidIdError(text, "use letters, digits and ._~- with / between parent and child")
    return RecordId(text)


def ancestors(child_id: str) -> tuple[RecordId, ...]:
    """Return the ids of a record's ancestors, the root first."""
    segments = child_id.split("/")
    return tuple(RecordId("/".join(segments[:n])) for n in range(1, len(segments)))


def parent_of(child_id: str) -> RecordId | None:
    """Return the id of a record's parent, or None for a root."""
    head, slash, _ = child_id.rpartition("/")
    return RecordId(head) if slash else None


def child_ids(parent: str, generation: int, number: int) -> tuple[str, ...]:
    """Return the ids of the children that a record creates at this version, in their order."""
    return tuple(f"{parent}/{generation}.{n}" for n in range(1, number + 1))


def place_of(child_id: str) -> tuple[int, int, str]:
    """Return where a child is among the children of its parent: it sorts as they were listed."""
    found = _CHILD.search(child_id)
    return (int(found[1]), int(found[2]), "") if found else (0, 0, child_id)


def root_of(member_id: str) -> str:
    """Return the first segment of an id, which names its family."""
    return member_id.partition("/")[0]


@lru_cache(maxsize=4_096)
def partition_of(member_id: str) -> int:
    """Return the partition of a record's whole family, 0 to 63."""
    return crc32(root_of(member_id).encode()) % PARTITIONS


@dataclass(frozen=True, slots=True)
class Entry:
    """An effect that a record owes, until its outcome is fired or it is settled. Times are ms.

    Its state is owed, leased, lapsed (its holder is lost), quarantined (a person must decide) or
    draining (revoked, and its holder has not stopped yet).
    """

    suffix: str
    name: str
    kind: Kind
    state: str
    token: str
    holder: str
    attempts: int
    attempts_max: int
    lease_until: int
    kill_by: int  # the last holder has surely stopped by then
    no_restart: bool  # if its holder is lost, nobody may start it again
    posted: int = 0  # interrupts to its holder
    exclusive: bool = False
    countdown: str = ""
    not_before: int = 0  # while it is owed
    slots: str = ""  # the name of the slots of which it needs one to be at work
    losses: int = 0  # how often its holder was lost

    @property
    def is_leased(self) -> bool:
        """Whether somebody holds it, and is at work on it."""
        return self.state == "leased"

    @property
    def awaits_slot(self) -> bool:
        """Whether it waits for one of its slots, as a worker found when it would have begun."""
        return self.state == "owed" and self.holder == SLOT

    @property
    def asks_person(self) -> bool:
        """Whether a person is asked about it: it was given up, or that person is in its way."""
        return self.state == "quarantined" or (self.state == "owed" and self.holder == PERSON)

    def key(self, owner_id: str) -> str:
        """Return the effect's id, which is also its idempotency key."""
        return f"{owner_id}:{self.suffix}"


@dataclass(frozen=True, slots=True)
class TimerEntry:
    """A timer that a record has set."""

    name: str
    due_at: int  # in ms, by the clock of the store
    set_at_version: int  # of the record
    left_ms: int | None  # while the record is paused
    fired: int  # how often


@dataclass(frozen=True, slots=True)
class RecordContent(Generic[D]):
    """A record without its effects, timers and counters, which takes half the time to read."""

    id: RecordId
    machine: str
    state: str
    version: Version
    data: D
    title: str = ""
    since_ms: int = 0
    schema: int = 1
    was: str = ""  # the state as the store has it, where an older table left it with another name

    @property
    def root(self) -> str:
        """The id of the root of its family."""
        return root_of(self.id)


@dataclass(frozen=True, slots=True)
class Record(RecordContent[D]):
    """A record: its state, its data, and the effects and timers that it has."""

    entered: Version = Version(1)  # at which it entered its state
    created_ms: int = 0
    priority: int = PRIORITY_DEFAULT
    paused: bool = False
    counted: str = ""  # the parent's countdown that it is counted in: <name>:<generation>
    parent_machine: str = ""  # the machine of the parent that counts it; '' is its own
    entries: tuple[Entry, ...] = ()
    timers: tuple[TimerEntry, ...] = ()
    counters: Mapping[str, int] = field(default_factory=dict)

    @property
    def parent(self) -> RecordId | None:
        """The id of the parent, or None for a root."""
        return parent_of(self.id)

    @property
    def ancestors(self) -> tuple[RecordId, ...]:
        """The ids of all records above it, the root first."""
        return ancestors(self.id)

    @property
    def levels_left(self) -> int:
        """How many levels of records there may be below it."""
        return ID_DEPTH_MAX - 1 - len(self.ancestors)

    def spawning(self, suffix: str) -> str:
        """Return the name of the countdown that this effect fills, or ''."""
        fills = (e.countdown for e in self.entries if e.suffix == suffix and e.kind is Kind.SPAWN)
        return next(fills, "")

    @property
    def proposal(self) -> str:
        """The name of the question that the record asks in its present state."""
        return f"{self.id}:{self.entered}"

    @property
    def quarantined(self) -> tuple[Entry, ...]:
        """The effects that were given up."""
        return tuple(entry for entry in self.entries if entry.state == "quarantined")

    @property
    def obstructed(self) -> tuple[Entry, ...]:
        """The effects that wait for a person who is in their way; of a paused record none start."""
        if self.paused:
            return ()
        return tuple(e for e in self.entries if e.asks_person and e.state == "owed")

    @property
    def asking_effects(self) -> tuple[Entry, ...]:
        """The effects about which a person is asked."""
        return (*self.quarantined, *self.obstructed)

    @property
    def retry_proposal(self) -> str:
        """The name of the question whether effects that ask a person may try again, or ''.

        It changes when another effect is quarantined or obstructed, or one of these again:
        lua/retry.lua compares it.
        """
        given_up = [entry.kill_by for entry in self.quarantined]
        given_back = [entry.kill_by for entry in self.obstructed]
        if not given_up and not given_back:
            return ""
        latest = f"{max(given_up, default=0)}.{max(given_back, default=0)}"
        return f"{self.id}{RETRY}{len(given_up)}.{latest}"


def split_key(effect_key: str) -> tuple[RecordId, str]:
    """Split an effect's id into the id of its record, and its suffix."""
    head, colon, suffix = effect_key.partition(":")
    if not colon or suffix.count(":") != 1:
        raise InvalidIdError(effect_key, "an effect's id is <record>:<version>.<n>:<nonce>")
    return record_id(head), suffix
