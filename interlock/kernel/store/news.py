"""Reads what has happened since it was last reported: cards opened and withdrawn, records ended.

What was reported is noted in each partition. A reader that is lost between reading and noting
leaves the news to the next one, so it must report the same news twice without harm.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from interlock.kernel.record import RecordId
from interlock.kernel.store.keys import Keys
from interlock.kernel.store.listings import page_plan
from interlock.kernel.store.scripts import Client, call, call_all
from interlock.kernel.store.state_reads import RecordInState

# Ends are read so long after they were committed: no commit can add an earlier one then, even if
# another server with a clock that is late by less has taken over.
SETTLED_MS = 2_000
# Where nobody has read for longer, the ends before that are not reported.
MISSED_MS_MAX = 3 * 86_400_000

Card = tuple[RecordId, int]  # a record, and since when (ms) it waits for a person


@dataclass(frozen=True, slots=True)
class News:
    """The news of a partition. `position` is up to where ends are reported with it."""

    partition: int
    opened: tuple[Card, ...]
    withdrawn: tuple[Card, ...]
    ended: tuple[RecordInState, ...]
    position: str
    is_first: bool  # nobody has read this partition before

    def __bool__(self) -> bool:
        return bool(self.is_first or self.opened or self.withdrawn or self.ended)


class Newsreader:
    """Reads and notes news, over one client."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self.client, self.keys = client, keys

    def read(
        self, partitions: Sequence[int], ends: Collection[tuple[str, str]], *, limit: int
    ) -> list[News]:
        """Return the news of partitions, in two round trips. `ends` are machines and final states.

        It has up to `limit` of each kind, the earliest ends first. The first reader gets all cards
        that are open, and no end.
        """
        keys, pairs = self.keys, list(ends)
        cards = call_all(
            self.client,
            "list_card_news",
            [
                ({"waits": keys.waits(at), **self._reported(at)}, {"limit": limit})
                for at in partitions
            ],
        )
        after = [_position(int(reply[0]), reply[1].decode()) for reply in cards]
        pages = call_all(
            self.client,
            "list_page",
            [
                (
                    {"indexes": [keys.state_index_of(at, *pair) for pair in pairs]},
                    page_plan("oldest", position, int(reply[0]) - SETTLED_MS, limit),
                )
                for at, position, reply in zip(partitions, after, cards, strict=True)
            ],
        )
        return [
            _news(at, reply, position, [(pairs[n - 1], one, ms) for n, one, ms in _by(3, page)])
            for at, reply, position, page in zip(partitions, cards, after, pages, strict=True)
        ]

    def note(self, news: News) -> None:
        """Note that this was reported."""
        plan = {
            "position": news.position,
            # As texts: Lua would write a number of so many digits in another form.
            "opened": [(one, str(ms)) for one, ms in news.opened],
            "withdrawn": [one for one, _ in news.withdrawn],
        }
        call(self.client, "note_news", self._reported(news.partition), plan)

    def _reported(self, partition: int) -> dict[str, str]:
        return {
            "reported_cards": self.keys.reported_cards(partition),
            "reported_ends": self.keys.reported_ends(partition),
        }


def _position(now_ms: int, noted: str) -> tuple[int, str]:
    """Return the ms and the record after which ends are read."""
    if not noted:
        return now_ms - SETTLED_MS + 1, ""
    ms, _, record = noted.partition(" ")
    oldest = now_ms - MISSED_MS_MAX
    return (int(ms), record) if int(ms) >= oldest else (oldest, "")


def _news(
    partition: int,
    reply: Sequence[Any],
    position: tuple[int, str],
    rows: Sequence[tuple[tuple[str, str], bytes, bytes]],
) -> News:
    ended = tuple(
        RecordInState(RecordId(one.decode()), machine, state, int(ms))
        for (machine, state), one, ms in rows
    )
    ms, record = (ended[-1].since_ms, ended[-1].id) if ended else position
    return News(
        partition=partition,
        opened=_cards(reply[2]),
        withdrawn=_cards(reply[3]),
        ended=ended,
        position=f"{ms} {record}",
        is_first=not reply[1],
    )


def _cards(reply: Sequence[bytes]) -> tuple[Card, ...]:
    return tuple((RecordId(one.decode()), int(ms)) for one, ms in _by(2, reply))


def _by(size: int, flat: Sequence[Any]) -> list[Any]:
    return list(zip(*[iter(flat)] * size, strict=True))
