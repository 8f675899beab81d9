"""Tells what has happened to records since it was last reported: cards and ends.

The indexes of the store know every card and every end, whatever has caused it. A reader that is
lost between reading and noting leaves the news to the next one, so it must report the same news
twice without harm.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from interlock.kernel.machines import LISTED
from interlock.kernel.record import PARTITIONS, Record
from interlock.kernel.store.news import News
from interlock.kernel.store.overdue import OverdueWaits
from interlock.kernel.table import Terminal
from interlock.workers.engine.answer_links import answer_links
from interlock.workers.engine.card import Card, kinds_of, proposals_of
from interlock.workers.engine.escalation import limit_ms, row_for
from interlock.workers.engine.open_cards import OpenCards
from interlock.workers.engine.records import Records


@dataclass(frozen=True, slots=True)
class NewsItem:
    """What has happened to one record, and when (ms, by the store).

    `proposals` are the questions that the record asks people now. The store does not know of which
    machine the record of a withdrawn card is: it is ''.
    """

    record_id: str
    machine: str
    at_ms: int
    proposals: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PartitionNews:
    """The news of one partition: cards opened, escalated and withdrawn, and records ended.

    `read` and `overdue` are what the store had, for `NewsFeed.note`.
    """

    opened: tuple[NewsItem, ...]
    escalated: tuple[NewsItem, ...]
    withdrawn: tuple[NewsItem, ...]
    ended: tuple[NewsItem, ...]
    read: News
    overdue: tuple[OverdueWaits, ...]


class NewsFeed:
    """Reads the news of the listed machines, and notes which of it was reported.

        feed = NewsFeed(records, without=("delivery",))  # a sweep's, whose `due` is `feed.due()`
        news = feed.read(partition)
        for item in news.opened:  # or escalated, withdrawn, ended
            tell(item.record_id, item.at_ms)
        feed.note(news)

    The ends of records of the machines `without` are no news: they are the reader's own records.
    A card that is answered before it is read is no news, and one whose record is paused when it
    would be escalated is not escalated. A deployment has one reader.

    Who sends a message about a card later reads the cards of its record anew with `cards`, and
    sends their `public_data`.
    """

    def __init__(self, records: Records, *, without: Collection[str] = ()) -> None:
        self.records, self.dispatch = records, records.dispatch
        self._machines = {name: one for name, one in records.machines.items() if name in LISTED}
        self._ends = [
            (name, str(stage.state))
            for name, machine in self._machines.items()
            for stage in machine.stages
            if isinstance(stage, Terminal) and name not in without
        ]

    def due(self) -> list[int]:
        """Return the partitions that have news."""
        with_news = {news.partition for news in self._read(range(PARTITIONS)) if news}
        overdue = {found.partition for found in self._overdue(range(PARTITIONS))}
        return sorted(with_news | overdue)

    def read(self, partition: int) -> PartitionNews:
        """Return the news of a partition, of each kind as much as one pass of a sweep takes."""
        (found,) = self._read([partition])
        overdue = tuple(self._overdue([partition]))
        return PartitionNews(
            opened=tuple(item for _, item in self._asking(found.opened)),
            escalated=tuple(item for each in overdue for item in self._escalated(each)),
            withdrawn=tuple(NewsItem(one, "", at_ms) for one, at_ms in found.withdrawn),
            ended=tuple(NewsItem(row.id, row.machine, row.since_ms) for row in found.ended),
            read=found,
            overdue=overdue,
        )

    def note(self, news: PartitionNews) -> Counter[str]:
        """Note news as reported. Return how many are `reported`, and how many stay `busy`."""
        # A record that asks nothing now may be paused or damaged. So its card stays news until the
        # record asks again or waits no more.
        asking = {item.record_id for item in news.opened}
        opened = tuple(each for each in news.read.opened if each[0] in asking)
        self.dispatch.news.note(replace(news.read, opened=opened))
        for each in news.overdue:
            self.dispatch.overdue.note(each)
        cards = len(opened) + sum(len(each.waits) for each in news.overdue)
        reported = cards + len(news.withdrawn) + len(news.ended)
        return Counter(reported=reported, busy=len(news.read.opened) - len(opened))

    def cards(self, record: Record) -> list[Card]:
        """Return the open cards of a record now."""
        return OpenCards(self.records, self.records.machines).of([record])

    def public_data(
        self, cards: Iterable[Card], *, answered_as: str | None = None
    ) -> list[dict[str, Any]]:
        """Return cards as data for the outside: without the person who has a card open.

        With a person's name, each choice that needs no further answer has its `link`, which answers
        as that person for a day, if INTERLOCK_PUBLIC_URL says how people reach the deployment.
        """
        shown = [{**card.as_data(), "claim": None} for card in cards]
        links = answer_links(self.records, answered_as) if answered_as else None
        return [links.add_to(each) for each in shown] if links else shown

    def _read(self, partitions: Sequence[int]) -> list[News]:
        limit = self.records.settings.sweep_batch
        return self.dispatch.news.read(partitions, self._ends, limit=limit)

    def _overdue(self, partitions: Sequence[int]) -> list[OverdueWaits]:
        settings = self.records.settings
        if not settings.escalations:
            return []
        now_ms = self.records.now_ms()
        before_ms = {row: now_ms - limit_ms(settings, row) for row in settings.escalations}
        return self.dispatch.overdue.read(partitions, before_ms, limit=settings.sweep_batch)

    def _asking(self, cards: Iterable[tuple[str, int]]) -> Iterator[tuple[Record, NewsItem]]:
        """Yield each record that still asks something, with since when. Canaries ask nobody."""
        since_ms = dict(cards)
        found = self.records.views.records(since_ms, readable_by=self._machines)
        for record in found.values():
            if proposals := tuple(proposals_of(self._machines[record.machine], record)):
                yield record, NewsItem(record.id, record.machine, since_ms[record.id], proposals)

    def _escalated(self, overdue: OverdueWaits) -> Iterator[NewsItem]:
        """Yield the records with a card whose kind this row of INTERLOCK_ESCALATIONS names."""
        settings = self.records.settings
        for record, item in self._asking(overdue.waits):
            kinds = kinds_of(self._machines[record.machine], record)
            if overdue.limit in [row_for(settings, kind) for kind in kinds]:
                due_ms = item.at_ms + limit_ms(settings, overdue.limit)
                yield replace(item, at_ms=due_ms)
