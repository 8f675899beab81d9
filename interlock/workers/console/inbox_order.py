"""The order of the inbox: which cards a list has, and which card follows another one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import parse_qsl, urlencode

from interlock.kernel.record import Record, RecordId, root_of
from interlock.workers.client import Client
from interlock.workers.console.card_summary import CardSummary, summary_of
from interlock.workers.engine.card import Card, no_registry
from interlock.workers.engine.open_cards import WantedCards

CARDS = 50
SOON_MS = 24 * 3_600_000  # a deadline that comes within this time makes a card urgent
FAMILIES, CARDS_ALONE = "families", "cards"
TEXT_LENGTH_MAX = 300  # a cursor has a time and an id


@dataclass(frozen=True, slots=True)
class InboxList:
    """The conditions and the order of a list of cards, as the query of its address."""

    wanted: WantedCards
    order: str = FAMILIES
    cursor: str = ""

    @property
    def query(self) -> str:
        """The query of the address of the list; '' for the whole inbox in its usual order."""
        order = "" if self.order == FAMILIES else self.order
        named = {**self.wanted, "order": order, "cursor": self.cursor}
        return urlencode({name: text for name, text in named.items() if text})

    @classmethod
    def of_query(cls, query: str) -> InboxList:
        """Return the list that a query describes; what it does not know in it is left out."""
        named = {name: text[:TEXT_LENGTH_MAX] for name, text in parse_qsl(query, max_num_fields=20)}
        wanted = WantedCards(
            machine=named.get("machine", ""),
            kind=named.get("kind", ""),
            tree=named.get("tree", ""),
            text=named.get("text", ""),
            tag=named.get("tag", ""),
            holder=named.get("holder", ""),
            escalated=named.get("escalated", ""),
        )
        order = CARDS_ALONE if named.get("order") == CARDS_ALONE else FAMILIES
        return cls(wanted, order, named.get("cursor", ""))


@dataclass(frozen=True, slots=True)
class CardFamily:
    """The cards of one family on a page. `title` is that of its root, or its id if that is hidden.

    The title is '' where there is only the root's own card, which says it already. `is_hidden`: the
    viewer may not see the root.
    """

    root: str
    title: str
    is_hidden: bool
    cards: tuple[Card, ...]


@dataclass(frozen=True, slots=True)
class InboxLook:
    """A page of the inbox as it was read: cards in their order, their records, the next cursor.

    The deadlines of the first `urgent` cards come within a day.
    """

    now_ms: int
    cards: tuple[Card, ...]
    records: Mapping[str, Record]
    urgent: int
    families: tuple[CardFamily, ...]
    cursor: str

    def record_ids(self, order: str) -> list[str]:
        """Return the records of the cards in the order in which a list shows them."""
        in_families = [card for family in self.families for card in family.cards]
        shown = in_families if order == FAMILIES else self.cards
        return list(dict.fromkeys(card.record_id for card in shown))

    def summaries(self, actor: str) -> Mapping[str, CardSummary]:
        """Return what the list shows of each card, by proposal."""
        return {
            card.proposal: summary_of(card, self.records.get(card.record_id), actor, self.now_ms)
            for card in self.cards
        }


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The records whose cards are before and after one in a list, or ''; and where it is in it.

    `number` is 0 where that is not known: on all pages of a list but the first.
    """

    before: str
    after: str
    number: int

    @property
    def next(self) -> str:
        """The record whose card comes next once this one is answered, or ''."""
        return self.after or self.before


def look_at_inbox(client: Client, cursor: str, wanted: WantedCards) -> InboxLook:
    """Return a page of open cards: those with a deadline soon, then by priority, then by age."""
    now_ms = client.dispatch.views.now_ms()
    open_cards = replace(client.open_cards, registry=no_registry)
    urgent = [] if cursor else open_cards.due(now_ms + SOON_MS, **wanted)[:CARDS]
    found = open_cards.page(CARDS, cursor, **wanted)
    known = {card.proposal for card in urgent}
    others = [card for card in found.cards if card.proposal not in known]
    cards = (*urgent, *sorted(others, key=lambda card: card.priority))
    ids = {RecordId(card.record_id) for card in cards}
    records = client.dispatch.views.records(ids, readable_by=client.machines)
    families = _families(client, cards)
    return InboxLook(now_ms, cards, records, len(urgent), families, found.cursor)


def neighbours(client: Client, record_id: str, shown: InboxList) -> Neighbours:
    """Return what is before and after the card of a record in a list.

    A record that is not on this page of the list is followed by the first one of it.
    """
    ids = look_at_inbox(client, shown.cursor, shown.wanted).record_ids(shown.order)
    if record_id not in ids:
        return Neighbours("", next(iter(ids), ""), 0)
    at = ids.index(record_id)
    before = ids[at - 1] if at else ""
    number = 0 if shown.cursor else at + 1
    return Neighbours(before, next(iter(ids[at + 1 :]), ""), number)


def _families(client: Client, cards: Sequence[Card]) -> tuple[CardFamily, ...]:
    """Return cards by family, in the order of the first card of each."""
    by_root: dict[str, list[Card]] = {}
    for card in cards:
        by_root.setdefault(root_of(card.record_id), []).append(card)
    titled = [root for root, found in by_root.items() if [one.record_id for one in found] != [root]]
    roots = client.dispatch.views.records(titled, readable_by=client.machines)
    titles: dict[str, str] = {one.id: one.title for one in roots.values()}
    return tuple(
        CardFamily(
            root=root,
            title=(titles.get(root) or root) if root in titled else "",
            is_hidden=root in titled and root not in titles,
            cards=tuple(found),
        )
        for root, found in by_root.items()
    )
