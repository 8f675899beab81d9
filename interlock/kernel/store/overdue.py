"""Reads which records have waited for a person for too long, each once for each limit.

Up to where a limit was reported is noted in each partition. A reader that is lost between reading
and noting leaves the records to the next one, so it must report the same ones twice without harm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from interlock.kernel.record import RecordId
from interlock.kernel.store.keys import Keys
from interlock.kernel.store.listings import page_plan
from interlock.kernel.store.scripts import Client, call_all, read, read_all


@dataclass(frozen=True, slots=True)
class OverdueWaits:
    """Records of a partition that waited too long by a limit, with since when (ms) each waits.

    `position` is up to where the limit is reported with them.
    """

    partition: int
    limit: str
    waits: tuple[tuple[RecordId, int], ...]
    position: str


class OverdueReader:
    """Finds records that have waited too long for a person, and notes which were reported."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self.client, self.keys = client, keys

    def read(
        self, partitions: Sequence[int], before_ms: Mapping[str, int], *, limit: int
    ) -> list[OverdueWaits]:
        """Return what waits since before a time, for each limit, in two round trips.

        `before_ms` gives the time of each limit by its name. Of each partition, the `limit` that
        have waited longest and were not noted come; a new limit begins with all that wait. What
        has none is left out.
        """
        names = list(before_ms)
        marks = read_all(
            self.client,
            [("HMGET", self.keys.reported_waits(at), *names) for at in partitions],
        )
        wanted = [
            (at, name, _position(mark))
            for at, found in zip(partitions, marks, strict=True)
            for name, mark in zip(names, found, strict=True)
        ]
        pages = call_all(
            self.client,
            "list_page",
            [
                (
                    {"indexes": [self.keys.waits(at)]},
                    page_plan("oldest", position, before_ms[name], limit),
                )
                for at, name, position in wanted
            ],
        )
        return [
            _overdue(at, name, page)
            for (at, name, _), page in zip(wanted, pages, strict=True)
            if page
        ]

    def note(self, found: OverdueWaits) -> None:
        """Note that these were reported."""
        key = self.keys.reported_waits(found.partition)
        read(self.client, "HSET", key, found.limit, found.position)


def _position(mark: bytes | None) -> tuple[int, str]:
    """Return the ms and the record after which a limit is read."""
    ms, _, record = (mark or b"0").decode().partition(" ")
    return int(ms), record


def _overdue(partition: int, name: str, page: Sequence[bytes]) -> OverdueWaits:
    waits = tuple(
        (RecordId(member.decode()), int(ms))
        for member, ms in zip(page[1::3], page[2::3], strict=True)
    )
    record, ms = waits[-1]
    return OverdueWaits(partition, name, waits, f"{ms} {record}")
