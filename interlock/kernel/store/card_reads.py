"""Reads what is shown of cards beside their records: since when they ask, claims, deadlines."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from interlock.kernel.event import CARD_CLAIMED, CARD_RELEASED, Note
from interlock.kernel.record import PARTITIONS, Record, RecordId, partition_of
from interlock.kernel.store import codec
from interlock.kernel.store.keys import Keys
from interlock.kernel.store.scripts import Client, read_all

LINES_MAX = 100  # of a log, that are searched for the claims of a card
TIMERS_MAX = 500  # of a partition, that are searched for deadlines


@dataclass(frozen=True, slots=True)
class CardClaim:
    """Who is on a card, who said so, and since when. It stops nobody else from answering."""

    holder: str
    by: str
    since_ms: int


class CardReads:
    """The reads, over one client."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self.client, self.keys = client, keys

    def since(self, records: Collection[Record]) -> dict[RecordId, int]:
        """Return when each of these records began to ask a person, in ms; others are left out."""
        keys = self.keys
        commands = [("ZSCORE", keys.waits(partition_of(one.id)), one.id) for one in records]
        found = zip(records, read_all(self.client, commands), strict=True)
        return {one.id: int(at_ms) for one, at_ms in found if at_ms is not None}

    def claims(self, records: Collection[Record]) -> dict[str, CardClaim]:
        """Return who has claimed the cards of records, by proposal, in one round trip.

        They are notes of the log; of those about one proposal, the newest counts. Of each log,
        the newest LINES_MAX lines since the record entered its state are read.
        """
        commands = [
            ("XREVRANGE", self.keys.log(one.id), "+", f"{one.entered}-0", "COUNT", LINES_MAX)
            for one in records
        ]
        newest: dict[str, CardClaim | None] = {}
        for one, page in zip(records, read_all(self.client, commands), strict=True):
            # A log with a damaged line must not hide the cards of other records.
            for _, line in codec.lines_of(one.id, page) or ():
                if not isinstance(line, Note) or line.kind not in (CARD_CLAIMED, CARD_RELEASED):
                    continue
                holder = line.detail.get("holder", "")
                claim = CardClaim(holder, line.detail["actor"], line.at_ms) if holder else None
                newest.setdefault(line.detail["proposal"], claim)
        return {proposal: claim for proposal, claim in newest.items() if claim}

    def due(self, timer_names: Collection[str], before_ms: int) -> list[RecordId]:
        """Return the records that have a timer of these names due before a time, soonest first.

        Of each partition, the TIMERS_MAX timers that are due first are searched.
        """
        within = ("-inf", before_ms, "BYSCORE", "LIMIT", 0, TIMERS_MAX, "WITHSCORES")
        commands = [("ZRANGE", self.keys.timers(at), *within) for at in range(PARTITIONS)]
        rows = [row for page in read_all(self.client, commands) for row in page]
        found = []
        for member, at_ms in rows:
            record_id, _, name = member.decode().rpartition(":")
            if name in timer_names:
                found.append((int(at_ms), RecordId(record_id)))
        return list(dict.fromkeys(one for _, one in sorted(found)))
