"""Reads records, logs and indexes, for people, pages and effects. No decision needs these reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from interlock.kernel.errors import MissedError, UnknownRecordError
from interlock.kernel.event import EFFECT_FAILED, LAPSE, START, Event, Note
from interlock.kernel.machine import Machine
from interlock.kernel.moving import state_now
from interlock.kernel.record import (
    PARTITIONS,
    Record,
    RecordContent,
    RecordId,
    partition_of,
    place_of,
)
from interlock.kernel.store import codec
from interlock.kernel.store.keys import Keys
from interlock.kernel.store.scripts import Client, call_all, read, read_all
from interlock.kernel.store.state_reads import PAGE, StateReads
from interlock.kernel.store.titles import id_in, names_below

FAILURE_LINES = 100
WORKER_LOST = "its worker was lost"
LogLine = tuple[str, Event | Note]  # with its position in the log


class Views(StateReads):
    """The reads, over one client."""

    def __init__(
        self, client: Client, keys: Keys, machines: Mapping[str, Machine] | None = None
    ) -> None:
        self.client, self.keys, self.machines = client, keys, machines or {}

    def record(self, record_id: str) -> Record:
        """Return a record. Raises UnknownRecordError, UnreadableRecordError."""
        names = (self.keys.record(record_id), self.keys.counters(record_id))
        pairs, counters = read_all(self.client, [("HGETALL", name) for name in names])
        if not pairs:
            raise UnknownRecordError(record_id)
        return codec.record_of(record_id, pairs, counters, self.machines)

    def history(self, record_id: str) -> list[Event | Note]:
        """Return the whole log of a record, oldest first."""
        return list(self.log(record_id))

    def log(self, record_id: str, *, after: str = "") -> Iterator[Event | Note]:
        """Yield what follows a position in a record's log, or all of it, page by page."""
        key, start = self.keys.log(record_id), f"({after or START}"
        while True:
            page = read(self.client, "XRANGE", key, start, "+", "COUNT", PAGE)
            for position, pairs in page:
                yield codec.line_of(record_id, position, dict(pairs))
            if len(page) < PAGE:
                return
            start = f"({page[-1][0].decode()}"

    def backwards(self, record_id: str, limit: int) -> Iterator[Event | Note]:
        """Yield the last lines of a record's log, the newest first, page by page."""
        key, end = self.keys.log(record_id), "+"
        while limit > 0:
            page = read(self.client, "XREVRANGE", key, end, "-", "COUNT", min(PAGE, limit))
            for position, pairs in page:
                yield codec.line_of(record_id, position, dict(pairs))
            if len(page) < min(PAGE, limit):
                return
            limit -= len(page)
            end = f"({page[-1][0].decode()}"

    def lines_after(
        self, places: Collection[tuple[str, str]], limit: int
    ) -> dict[tuple[str, str], list[LogLine] | None]:
        """Return what follows a position in each of several logs, in one round trip.

        A place is a record and a position, '' before its first line. Each log is read for up to
        `limit` lines; each line comes with its position. None: a line cannot be read.
        """
        commands = [
            ("XRANGE", self.keys.log(one), f"({position or START}", "+", "COUNT", limit)
            for one, position in places
        ]
        pages = zip(places, read_all(self.client, commands), strict=True)
        return {place: codec.lines_of(place[0], page) for place, page in pages}

    def children(self, record_id: str) -> list[RecordId]:
        """Return every child that a record ever had, in the order in which they were listed."""
        found = read(self.client, "SMEMBERS", self.keys.children(record_id))
        return sorted((RecordId(member.decode()) for member in found), key=place_of)

    def counted(self, record_id: str, countdown: str) -> set[str]:
        """Return the members of a countdown that have not ended. `*`: more may still join."""
        found = read(self.client, "SMEMBERS", self.keys.members(record_id, countdown))
        return {member.decode() for member in found}

    def tally(self, record_id: str, countdown: str) -> dict[str, int]:
        """Return how many members have left a countdown, by the state in which they ended."""
        return codec.counts(read(self.client, "HGETALL", self.keys.tally(record_id, countdown)))

    def counts(
        self, machines: Iterable[Machine], partitions: Collection[int] = range(PARTITIONS)
    ) -> dict[str, Counter[str]]:
        """Return how many records of each machine are in each state, by its present name."""
        chosen = list(machines)
        totals = {machine.name: Counter[str]() for machine in chosen}
        places = [(one, str(stage.state)) for one in chosen for stage in one.stages]
        places += [(one, old) for one in chosen for old in one.renamed]
        names = [(found.name, state) for found, state in places]
        indexes = (self.keys.state_indexes(one, names) for one in partitions)
        calls = [({"indexes": group}, dict[str, Any]()) for group in indexes]
        # One script a partition: most states are empty, and as many replies take far longer.
        for reply in call_all(self.client, "count", calls):
            for at, number in zip(reply[::2], reply[1::2], strict=True):
                found, state = places[at - 1]
                totals[found.name][state_now(found, state)] += number
        return totals

    def below(self, record_ids: Iterable[str], *, limit: int = -1) -> dict[str, list[RecordId]]:
        """Return the ids of all records below each of these, by name, in one round trip.

        With `limit`, at most so many of each.
        """
        asked = list(dict.fromkeys(record_ids))
        words = ("BYLEX", "LIMIT", 0, limit)
        commands = [
            ("ZRANGE", self.keys.search_index(partition_of(one)), *names_below(one), *words)
            for one in asked
        ]
        pages = zip(asked, read_all(self.client, commands), strict=True)
        return {one: [id_in(name.decode()) for name in page] for one, page in pages}

    def each_record(
        self, record_ids: Iterable[str], *, readable_by: Mapping[str, Machine] | None = None
    ) -> Iterator[Record]:
        """Yield what `records` returns, a page of records in one round trip."""
        ids = iter(record_ids)
        while page := list(islice(ids, PAGE)):
            yield from self.records(page, readable_by=readable_by).values()

    def records(
        self, record_ids: Iterable[str], *, readable_by: Mapping[str, Machine] | None = None
    ) -> dict[str, Record]:
        """Return the records that exist, in one round trip.

        With `readable_by`, those of other machines and those that are damaged are left out.
        """
        asked = list(dict.fromkeys(record_ids))
        names = [key for one in asked for key in (self.keys.record(one), self.keys.counters(one))]
        found = read_all(self.client, [("HGETALL", name) for name in names])
        rows = zip(asked, found[::2], found[1::2], strict=True)
        if readable_by is None:
            known = self.machines
            return {one: codec.record_of(one, row, n, known) for one, row, n in rows if row}
        parsed = (codec.readable_record_of(*row, readable_by) for row in rows)
        return {record.id: record for record in parsed if record}

    def contents(
        self, record_ids: Iterable[str], *, readable_by: Mapping[str, Machine]
    ) -> dict[str, RecordContent]:
        """Return the content of the records that exist, in one round trip.

        Those of other machines and those that are damaged are left out.
        """
        asked = list(dict.fromkeys(record_ids))
        commands = [("HMGET", self.keys.record(one), *codec.CONTENT_FIELDS) for one in asked]
        found = zip(asked, read_all(self.client, commands), strict=True)
        parsed = (codec.readable_content_of(*row, readable_by) for row in found)
        return {content.id: content for content in parsed if content}

    def creation_digests(self, record_ids: Iterable[str]) -> dict[str, str]:
        """Return the digest of what each record was created from, where the record exists."""
        asked = list(dict.fromkeys(record_ids))
        found = read_all(self.client, [("HGET", self.keys.record(one), "digest") for one in asked])
        rows = zip(asked, found, strict=True)
        return {one: digest.decode() for one, digest in rows if digest is not None}

    def latest(self, record_ids: Iterable[str], limit: int) -> dict[str, list[Event | Note]]:
        """Return the end of each record's log, newest first, in one round trip."""
        asked = list(dict.fromkeys(record_ids))
        pages = read_all(
            self.client,
            [("XREVRANGE", self.keys.log(one), "+", "-", "COUNT", limit) for one in asked],
        )
        return {
            one: [codec.line_of(one, position, dict(pairs)) for position, pairs in page]
            for one, page in zip(asked, pages, strict=True)
        }

    def last_failures(
        self, records: Iterable[Record], *, states: Collection[str] = ("owed", "quarantined")
    ) -> dict[str, dict[str, str]]:
        """Return why effects of records failed last, by id and by the effect's suffix.

        By default these are the effects that wait. It looks at the newest FAILURE_LINES lines of
        each log, in one round trip.
        """
        waiting: dict[str, set[str]] = {
            record.id: {
                entry.suffix for entry in record.entries if entry.attempts and entry.state in states
            }
            for record in records
        }
        found: dict[str, dict[str, str]] = {one: {} for one in waiting}
        for one, lines in self.latest(filter(waiting.get, waiting), FAILURE_LINES).items():
            for note in lines:
                if not isinstance(note, Note) or note.kind not in (EFFECT_FAILED, LAPSE):
                    continue
                if (suffix := note.detail.get("effect")) in waiting[one]:
                    error = note.detail.get("detail") or WORKER_LOST
                    found[one].setdefault(suffix, str(error))
        return found

    def queue(self, root: str, name: str, start: int, limit: int) -> list[RecordId]:
        """Return a page of a family's queue, the record to be claimed next first."""
        found = read(self.client, "ZRANGE", self.keys.queue(root, name), start, start + limit - 1)
        return [RecordId(member.decode()) for member in found]

    def queues(self, root: str) -> list[str]:
        """Return the names of a family's queues that are not empty."""
        found = read(self.client, "SMEMBERS", self.keys.queues(root))
        return sorted(member.decode() for member in found)

    def holds(self, root: str) -> dict[str, str]:
        """Return every name that is held in a family, with the record that holds it."""
        pairs = read(self.client, "HGETALL", self.keys.holds(root))
        return {name: value.decode() for name, value in codec.fields(pairs).items()}

    def family_log(self, root: str, after: str, limit: int) -> list[tuple[str, RecordId, int]]:
        """Return the commits of a family after a position, in order.

        Each is its position, the record and its version. '0-0' is before all that are kept. Raises
        MissedError where another position is no longer kept, so that commits may be missing.
        """
        key, begins = self.keys.family_log(root), after == "0-0"
        rows = read(self.client, "XRANGE", key, after, "+", "COUNT", limit + 1)
        if not begins:
            if not rows or rows[0][0].decode() != after:
                raise MissedError(root, after)
            rows = rows[1:]
        found = [(position.decode(), dict(fields)) for position, fields in rows[:limit]]
        return [(at, RecordId(row[b"record"].decode()), int(row[b"version"])) for at, row in found]

    def events(self, wanted: Iterable[tuple[str, int]]) -> list[Event]:
        """Return events by record and version, in one round trip. Pruned ones are left out."""
        asked = list(wanted)
        commands = [("XRANGE", self.keys.log(one), f"{n}-0", f"{n}-0") for one, n in asked]
        pages = zip(asked, read_all(self.client, commands), strict=True)
        lines = [codec.line_of(one, at, dict(row)) for (one, _), page in pages for at, row in page]
        return [line for line in lines if isinstance(line, Event)]

    def now_ms(self) -> int:
        """Return the store's time."""
        seconds, micros = read(self.client, "TIME")
        return int(seconds) * 1_000 + int(micros) // 1_000
