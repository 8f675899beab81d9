"""Lists records page by page: by creation, state, parent, beginning of the id, words of the title.

Those that wait for a person are listed by since when they wait.

No list is a snapshot: a record that changes while its pages are read may be in two of them or none.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from functools import lru_cache, partial
from itertools import chain
from typing import Any
from zlib import crc32

from interlock.kernel.errors import CallError
from interlock.kernel.machine import Machine
from interlock.kernel.moving import state_now
from interlock.kernel.record import PARTITIONS, RecordId, partition_of
from interlock.kernel.store.keys import Keys
from interlock.kernel.store.scripts import Client, call_all, read, read_all
from interlock.kernel.store.titles import ID_MARK, id_in, words_of

PAGE_MAX = 500
SCAN_MIN = 50  # records that are read at once
READ_MAX = 1_000
SHARE_MIN = 6  # that each partition is asked for, beside twice its share of a page
SCAN_MAX = 5_000  # records that are read for one page, where few of them fit
_FIELDS = ("machine", "state", "version", "title", "since", "created", "paused")
_END = "\N{DELETE}"  # after every letter of an id
_SCORE_MAX = 2**53
_LAST_LETTER = "\U0010ffff"  # after every letter of a word

Position = tuple[Any, ...]  # after which a list goes on: (score, id), (name,) or (id,)
Found = list[tuple[Position, RecordId]]
Source = Callable[[Position, int], Found]  # what comes after a position, up to a number


@dataclass(frozen=True, slots=True)
class ListedRecord:
    """A record as a list shows it, by the present name of its state. Times are ms by the store."""

    id: RecordId
    machine: str
    state: str
    version: int
    title: str
    since_ms: int
    created_ms: int
    paused: bool
    waits_for_person: bool


@dataclass(frozen=True, slots=True)
class Page:
    """Rows of a list, and the cursor of the page after them; '' where the list ends here."""

    rows: tuple[ListedRecord, ...]
    cursor: str

    @property
    def ids(self) -> list[RecordId]:
        """The ids of the records, in their order."""
        return [row.id for row in self.rows]


@dataclass(frozen=True, slots=True)
class Filter:
    """The records of a list: those of these machines for which everything else holds that is given.

    `states` are pairs of a machine and a state. `text` has words of the title, of which the last
    may be the beginning of one. `created_ms` and `since_ms` are the first and the last ms.
    """

    machines: Collection[str]
    states: Collection[tuple[str, str]] = ()
    parent: str = ""
    id_prefix: str = ""
    text: str = ""
    created_ms: tuple[int, int] | None = None
    since_ms: tuple[int, int] | None = None

    @property
    def by_time(self) -> bool:
        """Whether the list is in the order of time. Otherwise it is in the order of names."""
        return not (self.parent or self.id_prefix or self.text)

    def fits(self, row: ListedRecord) -> bool:
        """Whether a record belongs to the list."""
        return (
            row.machine in self.machines
            and (not self.states or (row.machine, row.state) in self.states)
            and row.id.startswith(self.id_prefix)
            and (not self.text or _has_words(row.title, self.text))
            and _is_within(row.created_ms, self.created_ms)
            and _is_within(row.since_ms, self.since_ms)
        )


def page_plan(
    order: str, after: tuple[float | str, str], last: float | str, limit: int
) -> dict[str, Any]:
    """Return the arguments of the script that lists a page, with the times as it compares them."""
    first, member = after
    return {
        "order": order,
        "first_score": str(first),
        "first_member": member,
        "last_score": str(last),
        "limit": limit,
    }


class Listings:
    """The lists, over one client."""

    def __init__(
        self, client: Client, keys: Keys, machines: Mapping[str, Machine] | None = None
    ) -> None:
        self.client, self.keys, self.machines = client, keys, machines or {}

    def state_now(self, machine: str, state: str) -> str:
        """Return the present name of a state by the tables of this process."""
        found = self.machines.get(machine)
        return state_now(found, state) if found else state

    def page(
        self, wanted: Filter, *, limit: int = 100, cursor: str = "", newest: bool = True
    ) -> Page:
        """Return one page of a list, which begins after the page whose cursor this is.

        With states the records come by the time at which they entered them, else by that of their
        creation: the newest first, or the oldest. With a parent, an id or a text they come by name.
        A page may have fewer rows than `limit` although the list goes on: only its cursor says.
        Raises CallError.
        """
        if not 0 < limit <= PAGE_MAX:
            raise CallError(f"a page has 1 to {PAGE_MAX} records, not {limit}")
        source, stamp = self.source_of(wanted, newest=newest), _stamp(wanted, newest=newest)
        position = _position(cursor, stamp, by_time=wanted.by_time)
        scanned, count = 0, max(limit, SCAN_MIN)
        rows: list[ListedRecord] = []
        while scanned < SCAN_MAX:
            found = source(position, count)
            by_id = self.rows_of(dict.fromkeys(one for _, one in found))
            for position, one in found:
                row = by_id.get(one)
                if row and wanted.fits(row) and _comes_here(row, position, wanted):
                    rows.append(row)
                if len(rows) == limit:
                    return Page(tuple(rows), _cursor(position, stamp))
            if len(found) < count:
                return Page(tuple(rows), "")
            scanned += len(found)
            # Where few fit, the next look reads more, so that a page takes few looks.
            count = min(2 * count, READ_MAX)
        return Page(tuple(rows), _cursor(position, stamp))

    def rows(self, wanted: Filter, *, size: int, newest: bool = True) -> Iterator[ListedRecord]:
        """Yield all records of a list, read in pages of `size` records, at most PAGE_MAX."""
        cursor, is_first = "", True
        while cursor or is_first:
            page = self.page(wanted, limit=min(size, PAGE_MAX), cursor=cursor, newest=newest)
            yield from page.rows
            cursor, is_first = page.cursor, False

    def waiting(
        self, partitions: Collection[int], after: tuple[int, str], limit: int
    ) -> list[tuple[int, RecordId]]:
        """Return at most `limit` records that wait for a person, the longest waiting first.

        Each comes with since when (ms) it waits. They follow a time and an id; with the id '' they
        begin with the time.
        """
        indexes = [[self.keys.waits(at)] for at in partitions]
        found = self._by_time(indexes, None, newest=False, position=after, limit=limit)
        return [(position[0], one) for position, one in found]

    def source_of(self, wanted: Filter, *, newest: bool) -> Source:
        """Choose the index that has the fewest records beside those that are wanted."""
        keys = self.keys
        if wanted.parent:
            members = read(self.client, "SMEMBERS", keys.children(wanted.parent))
            return partial(_named, sorted(member.decode() for member in members))
        if prefix := wanted.id_prefix:
            here = [partition_of(prefix)] if "/" in prefix else range(PARTITIONS)
            return partial(self._names, here, f"{ID_MARK}{prefix}", f"{ID_MARK}{prefix}{_END}")
        if wanted.text:
            return partial(self._names, range(PARTITIONS), *self._rarest(wanted.text))
        if wanted.states:
            return partial(self._by_time, self.state_indexes(wanted), wanted.since_ms, newest)
        indexes = [
            [keys.creation_index(at, name) for name in wanted.machines] for at in range(PARTITIONS)
        ]
        return partial(self._by_time, indexes, wanted.created_ms, newest)

    def state_indexes(self, wanted: Filter) -> list[list[str]]:
        """Return the indexes of the wanted states in each partition, in the order of the states."""
        name_of = self.keys.state_index_of
        return [[name_of(at, *pair) for pair in wanted.states] for at in range(PARTITIONS)]

    def _by_time(
        self,
        indexes: Sequence[list[str]],
        within: tuple[int, int] | None,
        newest: bool,  # noqa: FBT001 - it is given by partial()
        position: Position,
        limit: int,
    ) -> Found:
        """Return the rows that follow a position in time, from the indexes of each partition."""
        low, high = within or ("-inf", "+inf")
        first, last = (high, low) if newest else (low, high)
        after, member = position or (first, "")
        order = "newest" if newest else "oldest"

        def first_of_each(count: int) -> list[Found]:
            plan = page_plan(order, (after, member), last, count)
            calls = [({"indexes": group}, plan) for group in indexes]
            return [_rows_of(reply) for reply in call_all(self.client, "list_page", calls)]

        return _first(first_of_each, len(indexes), limit, newest=newest)

    def _names(
        self, partitions: Collection[int], low: str, high: str, position: Position, limit: int
    ) -> Found:
        """Return what follows in the search index between two names."""
        after = f"({position[0]}" if position else f"[{low}"

        def first_of_each(count: int) -> list[Found]:
            words = (after, f"[{high}", "BYLEX", "LIMIT", 0, count)
            commands = [("ZRANGE", self.keys.search_index(at), *words) for at in partitions]
            pages = read_all(self.client, commands)
            return [[((name.decode(),), id_in(name.decode())) for name in page] for page in pages]

        return _first(first_of_each, len(partitions), limit, newest=False)

    def _rarest(self, text: str) -> tuple[str, str]:
        """Return the first and last name of the word that the fewest titles have, of a text."""
        *whole, last = _words(text)
        ranges = [(f"{word} ", f"{word} {_END}") for word in whole]
        ranges = ranges or [(last, f"{last}{_LAST_LETTER}")]
        if len(ranges) == 1:
            return ranges[0]
        commands = [
            ("ZLEXCOUNT", self.keys.search_index(at), f"[{low}", f"[{high}")
            for low, high in ranges
            for at in range(PARTITIONS)
        ]
        counts = read_all(self.client, commands)
        totals = [sum(counts[n * PARTITIONS : (n + 1) * PARTITIONS]) for n in range(len(ranges))]
        return ranges[totals.index(min(totals))]

    def rows_of(self, record_ids: Collection[RecordId]) -> dict[RecordId, ListedRecord]:
        """Return records as lists show them, in one round trip.

        Those that were pruned are left out, and those that are damaged.
        """
        of_partition: dict[int, list[RecordId]] = {}
        for one in record_ids:
            of_partition.setdefault(partition_of(one), []).append(one)
        # The record itself only says whether its state asks, not whether its effects do.
        waits = [("ZMSCORE", self.keys.waits(at), *ids) for at, ids in of_partition.items()]
        commands = [("HMGET", self.keys.record(one), *_FIELDS) for one in record_ids]
        answers = read_all(self.client, [*waits, *commands])
        since = chain.from_iterable(answers[: len(waits)])
        asks = dict(zip(chain.from_iterable(of_partition.values()), since, strict=True))
        found = zip(record_ids, answers[len(waits) :], strict=True)
        rows = (
            (one, _row(one, values, waits=asks[one] is not None))
            for one, values in found
            if values[0] is not None
        )
        return {
            one: replace(row, state=self.state_now(row.machine, row.state))
            for one, row in rows
            if row
        }


def _first(
    first_of_each: Callable[[int], list[Found]], partitions: int, limit: int, *, newest: bool
) -> Found:
    """Return the first rows of several partitions together.

    Partitions have about as many records each. So each is asked for little more than its share,
    and only where one of them may have more of what is wanted, for all of it.
    """
    for asked in (min(limit, SHARE_MIN + 2 * limit // partitions), limit):
        chunks = first_of_each(asked)
        found = sorted((row for chunk in chunks for row in chunk), reverse=newest)
        # Behind the last row of a chunk that is full there may be more of its partition.
        ends = [chunk[-1] for chunk in chunks if len(chunk) == asked]
        sure = (max if newest else min)(ends, default=None)
        if asked == limit or sure is None or found.index(sure) >= limit - 1:
            break
    return found[:limit]


def _rows_of(reply: Sequence[bytes]) -> Found:
    """Return the rows that lua/list_page.lua answers with: an index, a member and a score each."""
    return [
        ((int(score), member.decode()), RecordId(member.decode()))
        for member, score in zip(reply[1::3], reply[2::3], strict=True)
    ]


def _row(one: RecordId, values: Sequence[bytes | None], *, waits: bool) -> ListedRecord | None:
    """Return a record as lists show it; None if it is damaged."""
    try:
        machine, state, version, title, since, created, paused = (
            value.decode() if value is not None else "" for value in values
        )
        return ListedRecord(
            id=one,
            machine=machine,
            state=state,
            version=int(version),
            title=title,
            since_ms=int(since),
            created_ms=int(created),
            paused=paused == "1",
            waits_for_person=waits,
        )
    except ValueError:
        return None


def _named(names: Sequence[str], position: Position, limit: int) -> Found:
    """Return what follows in a list of names."""
    first = bisect_right(names, position[0]) if position else 0
    return [((name,), RecordId(name)) for name in names[first : first + limit]]


@lru_cache(maxsize=16)
def _words(text: str) -> tuple[str, ...]:
    if words := words_of(text):
        return words
    raise CallError(f"{text!r} has no word to look for")


def _has_words(title: str, text: str) -> bool:
    *whole, last = _words(text)
    here = words_of(title)
    return set(whole) <= set(here) and any(word.startswith(last) for word in here)


def _comes_here(row: ListedRecord, position: Position, wanted: Filter) -> bool:
    """Whether this is the first name under which the list finds a record.

    A title can have several words that begin as the last word of the text does.
    """
    if not wanted.text or wanted.parent or wanted.id_prefix:
        return True
    word = str(position[0]).partition(" ")[0]
    last = _words(wanted.text)[-1]
    return len(_words(wanted.text)) > 1 or word == min(
        each for each in words_of(row.title) if each.startswith(last)
    )


def _is_within(ms: int, within: tuple[int, int] | None) -> bool:
    return within is None or within[0] <= ms <= within[1]


def _is_sound(position: Sequence[Any]) -> bool:
    """Whether a position could be one of an index: what others make up may be no text at all."""
    *scores, name = position
    return all(0 <= score <= _SCORE_MAX for score in scores) and name.isprintable()


def _stamp(wanted: Filter, *, newest: bool) -> int:
    """Return a number by which a cursor of another list is known."""
    fields = [sorted(wanted.machines), sorted(wanted.states), *astuple(wanted)[2:], newest]
    return crc32(repr(fields).encode())


def _cursor(position: Position, stamp: int) -> str:
    return urlsafe_b64encode(json.dumps([stamp, *position]).encode()).decode()


def _position(cursor: str, stamp: int, *, by_time: bool) -> Position:
    if not cursor:
        return ()
    try:
        of, *position = json.loads(urlsafe_b64decode(cursor))
        kinds = [type(each) for each in position]
    except (ValueError, TypeError, RecursionError):
        of, position, kinds = None, [], []
    whole = kinds == ([int, str] if by_time else [str])
    if of != stamp or not (whole and _is_sound(position)):
        raise CallError(f"{cursor[:40]!r} is no cursor of this list; begin without one")
    return tuple(position)
