"""What people and pages read: records, logs, counts, waits. It never writes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kernel.errors import UnknownRecordError
from kernel.event import Event, Note
from kernel.machine import Machine
from kernel.record import PARTITIONS, Record, RecordId
from kernel.store import codec
from kernel.store.keys import Keys
from kernel.store.scripts import Client, read

PAGE = 500


@dataclass(frozen=True, slots=True)
class Standing:
    """One record in a list: where it stands and since when (the store's ms)."""

    id: RecordId
    machine: str
    state: str
    since_ms: int


class Views:
    """Reads over one client. None of them is needed to decide anything."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self.client, self.keys = client, keys

    def record(self, record_id: str) -> Record:
        """Return a record. Raises UnknownRecordError."""
        pairs = read(self.client, "HGETALL", self.keys.record(record_id))
        if not pairs:
            raise UnknownRecordError(record_id)
        return codec.record_of(
            record_id,
            _flat(pairs),
            _flat(read(self.client, "HGETALL", self.keys.counters(record_id))),
        )

    def history(self, record_id: str) -> list[Event | Note]:
        """Return the whole log of a record, oldest first."""
        lines: list[Event | Note] = []
        start = "-"
        while True:
            page = read(self.client, "XRANGE", self.keys.log(record_id), start, "+", "COUNT", PAGE)
            lines += [codec.line_of(record_id, position, dict(pairs)) for position, pairs in page]
            if len(page) < PAGE:
                return lines
            start = f"({page[-1][0].decode()}"

    def children(self, record_id: str) -> list[RecordId]:
        """Return every child ever born to a record, by name."""
        found = read(self.client, "SMEMBERS", self.keys.kids(record_id))
        return sorted(RecordId(member.decode()) for member in found)

    def counted(self, record_id: str, countdown: str) -> set[str]:
        """Return who is still counted; `*` stands for a spawning that has not ended."""
        found = read(self.client, "SMEMBERS", self.keys.members(record_id, countdown))
        return {member.decode() for member in found}

    def tally(self, record_id: str, countdown: str) -> dict[str, int]:
        """Return how many left a countdown, by the state that they ended in."""
        pairs = read(self.client, "HGETALL", self.keys.tally(record_id, countdown))
        return codec.counts(_flat(pairs))

    def counts(self, machine: Machine) -> dict[str, int]:
        """Return exactly how many records stand in each state."""
        states = [str(stage.state) for stage in machine.stages]
        totals = dict.fromkeys(states, 0)
        for state in states:
            for partition in range(PARTITIONS):
                totals[state] += int(
                    read(
                        self.client, "ZCARD", self.keys.standing_in(partition, machine.name, state)
                    )
                )
        return totals

    def standing(self, machine: Machine, state: str, limit: int) -> list[Standing]:
        """Return records in a state, the longest there first."""
        found: list[Standing] = []
        for partition in range(PARTITIONS):
            key = self.keys.standing_in(partition, machine.name, state)
            rows = self._pairs(read(self.client, "ZRANGE", key, 0, limit - 1, "WITHSCORES"))
            found += [Standing(RecordId(i), machine.name, state, at) for i, at in rows]
        return sorted(found, key=lambda row: row.since_ms)[:limit]

    def waiting(self, limit: int) -> list[tuple[RecordId, int]]:
        """Return records that wait for a person, the longest first, with since when."""
        found: list[tuple[RecordId, int]] = []
        for partition in range(PARTITIONS):
            rows = read(
                self.client, "ZRANGE", self.keys.waits(partition), 0, limit - 1, "WITHSCORES"
            )
            found += [(RecordId(member), at) for member, at in self._pairs(rows)]
        return sorted(found, key=lambda row: row[1])[:limit]

    def standing_in(
        self, machine: Machine, state: str, partition: int, limit: int, *, newest: bool = False
    ) -> list[RecordId]:
        """Return records of one partition in a state, the longest there first, or last."""
        key = self.keys.standing_in(partition, machine.name, state)
        word = "ZREVRANGE" if newest else "ZRANGE"
        return [RecordId(one.decode()) for one in read(self.client, word, key, 0, limit - 1)]

    def line(self, root: str, name: str, start: int, limit: int) -> list[RecordId]:
        """Return a page of a family's line: who is to be taken next comes first."""
        found = read(self.client, "ZRANGE", self.keys.line(root, name), start, start + limit - 1)
        return [RecordId(member.decode()) for member in found]

    def lines(self, root: str) -> list[str]:
        """Return the lines of a family in which somebody stands."""
        found = read(self.client, "SMEMBERS", self.keys.lines(root))
        return sorted(member.decode() for member in found)

    def holds(self, root: str) -> dict[str, str]:
        """Return every name that is held in a family, and by which record."""
        pairs = _flat(read(self.client, "HGETALL", self.keys.holds(root)))
        return {name: value.decode() for name, value in codec.fields(pairs).items()}

    def ended(self, partition: int, before_ms: int, limit: int) -> list[RecordId]:
        """Return roots of a partition that ended before a time, oldest first."""
        key = self.keys.ended(partition)
        rows = read(self.client, "ZRANGE", key, "-inf", before_ms, "BYSCORE", "LIMIT", 0, limit)
        return [RecordId(member.decode()) for member in rows]

    def now_ms(self) -> int:
        """Return the store's time."""
        seconds, micros = read(self.client, "TIME")
        return int(seconds) * 1_000 + int(micros) // 1_000

    def depths(self) -> dict[str, int]:
        """Return how many effects and timers are in the indexes, and how many records wait."""
        names = {"effects": self.keys.effects, "timers": self.keys.timers, "waits": self.keys.waits}
        return {
            name: sum(int(read(self.client, "ZCARD", key(p))) for p in range(PARTITIONS))
            for name, key in names.items()
        }

    def _read(self, *words: Any) -> Any:
        return read(self.client, *words)

    @staticmethod
    def _pairs(rows: Any) -> Iterator[tuple[str, int]]:
        for member, score in rows:
            yield member.decode(), int(score)


def _flat(pairs: Any) -> list[bytes]:
    """Both protocols' replies as one flat list."""
    if isinstance(pairs, dict):
        return [part for pair in pairs.items() for part in pair]
    return list(pairs)
