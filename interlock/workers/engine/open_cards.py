"""Finds the cards that wait for people, page by page, and notes who is on one of them."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from interlock.kernel.errors import CallError, FencedError, InvalidPayloadError, UnknownMachineError
from interlock.kernel.event import CARD_CLAIMED, CARD_RELEASED
from interlock.kernel.machine import Machine
from interlock.kernel.record import PARTITIONS, RETRY, Record, RecordId, partition_of, root_of
from interlock.kernel.shown_stage import knows
from interlock.kernel.store.codec import UNREADABLE
from interlock.kernel.store.commands import NO_WARRANT, Call, NoteDraft, Warrant
from interlock.kernel.table import Waiting
from interlock.workers.engine.card import (
    Card,
    CardEscalation,
    CardPage,
    card_of,
    cards_of_effects,
    deciders_of,
    kinds_of,
    proposals_of,
    tags_of,
)
from interlock.workers.engine.card_answers import CardAnswers
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.escalation import OTHERS, escalation_of
from interlock.workers.engine.records import Records
from interlock.workers.text import visible_line

if TYPE_CHECKING:  # imported where a card may name a capability
    from interlock.workers.gateways.capabilities.registry import Registry

log = logging.getLogger(__name__)

SCANNED_MAX = 5_000  # records that are read to find those that are wanted
READ_MAX = 1_000  # of them, at once
DUE_MAX = 500
HOLDER_LENGTH_MAX = 100


class WantedCards(TypedDict, total=False):
    """Which cards are wanted: of a machine, kind or family, with words or tags, claimed by one.

    `tree` is the id of the family's root; `text` are words of the title, each whole or in part.
    `tag` are tags, with commas between; a card has to have all of them. `holder` is the name of who
    has claimed it. `escalated` are names of people and roles, with commas between: the cards that
    are escalated to one of them by now. `*` stands for everybody.
    """

    machine: str
    kind: str
    tree: str
    text: str
    tag: str
    holder: str
    escalated: str


@dataclass(frozen=True, slots=True)
class OpenCards:
    """The open cards of some machines, and the claims of them.

    The answers' schemas have the parameters of the capabilities that `registry` returns, by default
    of those that clients of this connection share.
    """

    records: Records
    machines: Mapping[str, Machine]
    registry: Callable[[], Registry | None] | None = None

    @property
    def dispatch(self) -> Dispatch:
        """The connection to the store."""
        return self.records.dispatch

    def page(self, limit: int, cursor: str, **wanted: Unpack[WantedCards]) -> CardPage:
        """Return the cards of a page of records. Raises CallError for a wrong cursor."""
        records, following = self.waiting(limit, cursor, **wanted)
        found = self.of(records)
        kind, escalated = wanted.get("kind", ""), self._escalated(wanted)
        shown = (card for card in found if kind in ("", card.kind) and escalated(card.escalation))
        return CardPage(tuple(shown), following)

    def waiting(
        self, limit: int, cursor: str = "", **wanted: Unpack[WantedCards]
    ) -> tuple[list[Record], str]:
        """Return at most `limit` records that wait, the longest first, and the next page's cursor.

        They come after the page whose cursor is given. Raises CallError for a wrong cursor.
        """
        named = wanted.get("machine")
        if named and named not in self.machines:
            raise UnknownMachineError(named, sorted(self.machines))
        after, size, goes_on = _place(cursor), limit, True
        tree = wanted.get("tree")
        partitions = [partition_of(tree)] if tree else range(PARTITIONS)
        since_ms: dict[RecordId, int] = {}
        shown: list[Record] = []
        while goes_on and len(shown) < limit and len(since_ms) < SCANNED_MAX:
            waiting = self.dispatch.listings.waiting(partitions, after, size + 1)
            goes_on, waiting = len(waiting) > size, waiting[:size]
            since_ms |= {one: at for at, one in waiting}
            ids = (one for _, one in waiting)
            found = self.dispatch.views.records(ids, readable_by=self.machines)
            found |= self._in_unknown_states(one for _, one in waiting if one not in found)
            shown += self._wanted(found.values(), wanted)
            after = waiting[-1] if waiting else after
            # Where few are wanted, the next look reads more, so that a page takes few looks.
            size = min(4 * size, READ_MAX)
        if len(shown) > limit:
            goes_on, last = True, shown[limit - 1].id
            after = (since_ms[last], last)
        return shown[:limit], f"{after[0]}:{after[1]}" if goes_on else ""

    def _in_unknown_states(self, record_ids: Iterable[RecordId]) -> dict[str, Record]:
        """Return those of the records whose state is one that the table of their machine lacks."""
        rows = self.dispatch.listings.rows_of(list(record_ids)).values()
        ids = [
            row.id
            for row in rows
            if row.machine in self.machines and not knows(self.machines[row.machine], row.state)
        ]
        found: dict[str, Record] = {}
        for one in ids:
            with suppress(CallError, *UNREADABLE):  # it is damaged, or pruned meanwhile
                found[one] = self.dispatch.views.record(one)
        return found

    def due(self, before_ms: int, **wanted: Unpack[WantedCards]) -> list[Card]:
        """Return the cards whose deadline comes before a time, the soonest first.

        The DUE_MAX records whose timers are due first are read.
        """
        names = {
            timer.name
            for machine in self.machines.values()
            for stage in machine.stages
            if isinstance(stage, Waiting) and stage.affordances
            for timer in stage.timers
            if timer.trigger
        }
        due = self.dispatch.card_reads.due(names, before_ms) if names else []
        found = self.dispatch.views.records(due[:DUE_MAX], readable_by=self.machines)
        records = self._wanted(found.values(), wanted)
        escalated = self._escalated(wanted)
        return [card for card in self.of(records) if card.deadline and escalated(card.escalation)]

    def of(self, records: Collection[Record]) -> list[Card]:
        """Return the open cards of records: those of their states, and those of their effects.

        A record that is so damaged that it makes no card is left out.
        """
        failures = self.dispatch.views.last_failures(records)
        claims = self.dispatch.card_reads.claims(records)
        since = self._since(records)
        return [
            replace(
                card,
                claim=claims.get(card.proposal),
                escalation=escalation_of(self.dispatch.settings, card.kind, since.get(one.id)),
            )
            for one in records
            for card in self._readable(one, failures[one.id])
        ]

    def claim(self, record: Record, proposal: str, holder: str, call: Call) -> None:
        """Note that somebody is on a card, or with '' that nobody is any more.

        Raises StaleDecisionError if the card is not open, InvalidPayloadError if the holder's name
        cannot be one, or may not answer.
        """
        if holder:
            self._check_holder(record, holder)
        cause = call.cause
        detail: dict[str, Any] = {"proposal": proposal, "holder": holder, "actor": cause.actor}
        if cause.codes:
            detail["codes"] = list(cause.codes)
        draft = NoteDraft(CARD_CLAIMED if holder else CARD_RELEASED, detail)
        machine = self.dispatch.lifecycle.machine(record.machine)
        stale = CardAnswers(machine, record, lambda: self.dispatch.registry).stale(proposal)
        if proposal not in proposals_of(machine, record):
            raise stale
        # The card of effects has a name of its own; that of a state is the state's entry.
        is_of_state = RETRY not in proposal
        warrant = Warrant.person(record.entered) if is_of_state else NO_WARRANT
        try:
            self.dispatch.lifecycle.note(record, draft, op_id=call.op_id, warrant=warrant)
        except FencedError:
            raise stale from None

    def _check_holder(self, record: Record, holder: str) -> None:
        if len(holder) > HOLDER_LENGTH_MAX or visible_line(holder).strip() != holder:
            problem = f"a name has up to {HOLDER_LENGTH_MAX} visible letters, in one line"
            raise InvalidPayloadError("the holder", [problem])
        deciders = deciders_of(record)
        if deciders and holder not in deciders:
            problem = f"{holder} may not answer this card; these may: {', '.join(deciders)}"
            raise InvalidPayloadError("the holder", [problem])

    def _readable(self, record: Record, failures: Mapping[str, str]) -> list[Card]:
        try:
            return list(self._cards(record, failures))
        except UNREADABLE:
            log.exception("the cards of %s cannot be shown; is the record damaged?", record.id)
            return []

    def _cards(self, record: Record, failures: Mapping[str, str]) -> Iterator[Card]:
        machine = self.dispatch.lifecycle.machine(record.machine)
        registry = self.registry or self.dispatch.registry_or_none
        if of_state := card_of(machine, record, registry):
            yield of_state
        yield from cards_of_effects(machine, record, failures)

    def _wanted(self, records: Iterable[Record], wanted: WantedCards) -> list[Record]:
        machine, kind = wanted.get("machine", ""), wanted.get("kind", "")
        tree = wanted.get("tree", "")
        words = wanted.get("text", "").casefold().split()
        tags = _named(wanted, "tag", wanted.get("tag", "").casefold().replace(",", " ").split())
        found = [
            one
            for one in records
            if machine in ("", one.machine)
            and tree in ("", root_of(one.id))
            and (not kind or kind in kinds_of(self.machines[one.machine], one))
            and all(word in one.title.casefold() for word in words)
            and (not tags or tags <= self._words_of_tags(one))
        ]
        if holder := wanted.get("holder"):
            claims = self.dispatch.card_reads.claims(found)
            claimed = {proposal for proposal, claim in claims.items() if claim.holder == holder}
            found = [
                one
                for one in found
                if not claimed.isdisjoint(proposals_of(self.machines[one.machine], one))
            ]
        if wanted.get("escalated"):
            is_wanted, since = self._escalated(wanted), self._since(found)
            found = [
                one
                for one in found
                if any(
                    is_wanted(escalation_of(self.dispatch.settings, kind, since.get(one.id)))
                    for kind in kinds_of(self.machines[one.machine], one)
                )
            ]
        return found

    def _words_of_tags(self, record: Record) -> set[str]:
        """Return the tags of a record without case; of one that is damaged, none."""
        try:
            return {tag.casefold() for tag in tags_of(self.machines[record.machine], record)}
        except UNREADABLE:
            log.exception("the tags of %s cannot be read; is the record damaged?", record.id)
            return set()

    def _since(self, records: Collection[Record]) -> dict[RecordId, int]:
        """Return since when records ask a person, which only escalations need."""
        return self.dispatch.card_reads.since(records) if self.dispatch.settings.escalations else {}

    def _escalated(self, wanted: WantedCards) -> Callable[[CardEscalation | None], bool]:
        """Return what tells whether a card with an escalation is wanted."""
        names = _named(wanted, "escalated", wanted.get("escalated", "").split(","))
        if not names:
            return lambda _: True
        now_ms = self.dispatch.views.now_ms()
        return lambda one: (
            one is not None and one.due_ms <= now_ms and (OTHERS in names or one.to in names)
        )


def _named(wanted: WantedCards, field: Literal["tag", "escalated"], parts: list[str]) -> set[str]:
    """Return the names among the parts of a condition. Raises CallError for commas alone."""
    names = {part.strip() for part in parts} - {""}
    if not names and wanted.get(field, "").strip():
        raise CallError(f"{field}={wanted[field]!r} names nothing; write names with commas between")
    return names


def gather_cards(page: Callable[..., CardPage], limit: int, wanted: WantedCards) -> list[Card]:
    """Return the open cards of at most `limit` records, from as many pages as that takes."""
    found: list[Card] = []
    cursor, goes_on = "", True
    while goes_on and limit > 0:
        one = page(limit=limit, cursor=cursor, **wanted)
        found += one.cards
        limit -= len({card.record_id for card in one.cards})
        cursor, goes_on = one.cursor, bool(one.cursor)
    return found


def _place(cursor: str) -> tuple[int, str]:
    if not cursor:
        return 0, ""
    found = re.fullmatch(r"(\d{1,15}):(.+)", cursor)
    if found is None:
        raise CallError(f"{cursor[:40]!r} is no cursor of this list; begin without one")
    return int(found[1]), found[2]
