"""Reads the feeds of all partitions as one: which record came to which version, each commit once.

A feed has the commits of its partition in their order. Between partitions there is no order, so a
position in all of them has one for each. A reader who goes on from it misses no commit and gets
none twice, whatever is committed meanwhile.
"""

from __future__ import annotations

import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

from interlock.kernel.errors import InvalidPayloadError, MissedError
from interlock.kernel.record import PARTITIONS, RecordId, Version
from interlock.kernel.store import commands
from interlock.kernel.store.keys import Keys
from interlock.kernel.store.scripts import Client, read_all

PAGE = 100  # commits that one look reads from one position
ADVICE = "follow without a position; `interlock events` reads what came between from the logs"
SHOWN = 12  # letters of a position, in an error
# Two numbers for each partition, as wide as the store has them: while its clock is behind the ms of
# the newest commit, because it was set back, it numbers all commits within that ms.
_PACKED = struct.Struct(f">{2 * PARTITIONS}Q")


class Place(NamedTuple):
    """Where a commit is in the feed of its partition: its ms, and its number within the ms."""

    ms: int
    number: int


Position = tuple[Place, ...]  # one place for each partition
BEGIN = Place(0, 0)


@dataclass(frozen=True, slots=True)
class Committed:
    """A commit in a feed: a record, its machine and its new version, and the position after it."""

    record_id: RecordId
    machine: str
    version: Version
    position: Position


class Feed:
    """The feeds of a store, over one client."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self.client, self.keys = client, keys

    def newest(self) -> Position:
        """Return the position after all commits that were made until now."""
        reads = [("XREVRANGE", self.keys.feed(at), "+", "-", "COUNT", 1) for at in _ALL]
        pages = read_all(self.client, reads)
        return tuple(_place(page[0][0]) if page else BEGIN for page in pages)

    def after(
        self, positions: Collection[Position]
    ) -> dict[Position, list[Committed] | MissedError]:
        """Return what follows each position, up to PAGE commits, in one round trip.

        The earlier commits come first, by the clocks of the partitions. An error stands for a
        position after which commits may be missing, because it is no longer kept.
        """
        places = list({(at, place) for one in positions for at, place in enumerate(one)})
        reads = [self._read(at, place) for at, place in places]
        beginnings = [at for at, place in places if place == BEGIN]
        lengths = [("XLEN", self.keys.feed(at)) for at in beginnings]
        replies = read_all(self.client, [*reads, *lengths])
        pages = dict(zip(places, replies, strict=False))
        for at, length in zip(beginnings, replies[len(reads) :], strict=True):
            # Where so many were committed since, the first of them may be deleted.
            if length < commands.FEED_MIN:
                pages[at, BEGIN] = [(b"0-0", {}), *pages[at, BEGIN]]
        return {one: _following(one, pages) for one in positions}

    def _read(self, at: int, place: Place) -> tuple[Any, ...]:
        # With the commit at the place itself, which shows that none after it was deleted.
        return ("XRANGE", self.keys.feed(at), f"{place.ms}-{place.number}", "+", "COUNT", PAGE + 1)


_ALL = range(PARTITIONS)


def _following(
    position: Position, pages: Mapping[tuple[int, Place], Sequence[Any]]
) -> list[Committed] | MissedError:
    found = []
    for at, place in enumerate(position):
        page = pages[at, place]
        if not page or _place(page[0][0]) != place:
            return MissedError("the feed of events", f"{text_of(position)[:SHOWN]}...", ADVICE)
        found += [(_place(key), at, fields) for key, fields in page[1:]]
    now, following = list(position), []
    for place, at, pairs in sorted(found, key=lambda row: row[:2])[:PAGE]:
        now[at], fields = place, dict(pairs)
        one = RecordId(fields[b"record"].decode())
        machine, version = fields[b"machine"].decode(), Version(int(fields[b"version"]))
        following.append(Committed(one, machine, version, tuple(now)))
    return following


def _place(key: bytes) -> Place:
    ms, _, number = key.partition(b"-")
    return Place(int(ms), int(number))


def text_of(position: Position) -> str:
    """Return a position as a text of letters, digits, `-` and `_`."""
    packed = _PACKED.pack(*chain.from_iterable(position))
    return urlsafe_b64encode(packed).decode().rstrip("=")


def position_of(text: str) -> Position:
    """Return the position that a text stands for. Raises InvalidPayloadError."""
    try:
        numbers = _PACKED.unpack(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, struct.error):
        numbers = ()
    position = tuple(map(Place, numbers[::2], numbers[1::2]))
    if not position or text_of(position) != text:
        problem = f"{text[:40]!r} is no position in the feed of events"
        raise InvalidPayloadError("the position", [problem])
    return position
