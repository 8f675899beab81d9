"""The calls of a client about cards: which are open, and who is on one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Unpack

from interlock.kernel.machine import Machine
from interlock.kernel.record import RETRY, Record
from interlock.kernel.store.commands import Call
from interlock.workers.engine.card import Card, CardPage
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.open_cards import OpenCards, WantedCards, gather_cards


class CardCalls(ABC):
    """The part of `Client` that lists cards."""

    dispatch: Dispatch
    machines: Mapping[str, Machine]
    actor: str

    @abstractmethod
    def show(self, record_id: str) -> Record:
        """Return a record as it is now."""

    @abstractmethod
    def call(self, op_id: str | None, reason: str) -> Call:
        """Return a call of this client, with the op-id and reason of its caller."""

    @property
    def open_cards(self) -> OpenCards:
        """The cards that wait for people."""
        return OpenCards(self.dispatch, self.machines)

    def card(self, record_id: str) -> Card | None:
        """Return the card that a record shows a person now, if it has one."""
        return next((one for one in self.cards_of(record_id) if RETRY not in one.proposal), None)

    def cards(self, *, limit: int = 100, **wanted: Unpack[WantedCards]) -> list[Card]:
        """Return the open cards of at most so many records, the longest waiting first."""
        return gather_cards(self.cards_page, limit, wanted)

    def cards_page(
        self, *, limit: int = 100, cursor: str = "", **wanted: Unpack[WantedCards]
    ) -> CardPage:
        """Return one page of the open cards, which begins after the page with this cursor."""
        return self.open_cards.page(limit, cursor, **wanted)

    def cards_of(self, record_id: str) -> list[Card]:
        """Return the open cards of one record: that of its state, and those of its effects."""
        return self.open_cards.of([self.show(record_id)])

    def claim_card(
        self, record_id: str, *, proposal: str, holder: str = "", op_id: str | None = None
    ) -> list[Card]:
        """Note that the caller, or a `holder`, is on a card, which others may still answer."""
        call = self.call(op_id, "")
        self.open_cards.claim(self.show(record_id), proposal, holder or self.actor, call)
        return self.cards_of(record_id)

    def release_card(self, record_id: str, *, proposal: str) -> list[Card]:
        """Note that nobody is on a card any more. Returns the record's open cards."""
        self.open_cards.claim(self.show(record_id), proposal, "", self.call(None, ""))
        return self.cards_of(record_id)
