"""The calls of a client about cards: which are open, who is on one, and their answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from interlock.kernel.errors import InvalidPayloadError
from interlock.kernel.event import Event, Note
from interlock.kernel.machine import Machine
from interlock.kernel.record import RETRY, Record
from interlock.kernel.store.commands import Call, Warrant
from interlock.workers.engine.card import Card, CardPage, kinds_of
from interlock.workers.engine.card_answers import CardAnswers
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.open_cards import OpenCards, WantedCards, gather_cards
from interlock.workers.engine.records import Records

if TYPE_CHECKING:  # imported where it is loaded
    from interlock.workers.gateways.capabilities.registry import Registry


class CardCalls(ABC):
    """The part of `Client` that lists and answers cards."""

    dispatch: Dispatch
    machines: Mapping[str, Machine]
    actor: str
    run_refusal = ""  # why nobody may name a command to run by this client, or ''

    @property
    @abstractmethod
    def records(self) -> Records:
        """The records as this client's actor changes them."""

    @abstractmethod
    def show(self, record_id: str, *, machine: str = "") -> Record:
        """Return a record as it is now."""

    @abstractmethod
    def call(self, op_id: str | None, reason: str) -> Call:
        """Return a call of this client, with the op-id and reason of its caller."""

    @abstractmethod
    def history(self, record_id: str) -> list[Event | Note]:
        """Return a record's whole log, oldest first."""

    @abstractmethod
    def was_made(self, record_id: str, op_id: str | None) -> bool:
        """Return whether a call about a record was made before with this op-id."""

    @property
    def registry(self) -> Registry:
        """The capabilities against which a person's edited action is checked."""
        return self.dispatch.registry

    @property
    def open_cards(self) -> OpenCards:
        """The cards that wait for people."""
        return OpenCards(self.records, self.machines)

    def asks_person(self, record: Record) -> bool:
        """Return whether a record has a card: its state asks a person, or one of its effects."""
        return bool(kinds_of(self.dispatch.lifecycle.machine(record.machine), record))

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

    def decide(
        self,
        record_id: str,
        choice: str,
        answer: Mapping[str, Any] | None = None,
        *,
        proposal: str,
        op_id: str | None = None,
    ) -> Record:
        """Answer a card. `proposal` is the one that you saw: a decision on an older one is refused.

        `choice` is one of the card's affordances, or `redirect` if the state has that transition.
        The card of effects that were given up has a proposal of its own: another card of the record
        may offer `retry` as well.
        """
        if choice == "retry" and proposal.startswith(f"{record_id}{RETRY}"):
            if answer:
                raise InvalidPayloadError(choice, [f"takes no payload, got {sorted(answer)}"])
            self.dispatch.lifecycle.flag(
                "retry", record_id, self.call(op_id, ""), proposal=proposal
            )
            return self.show(record_id)
        record = self.show(record_id)
        answers, state = self.answers(record), record.state
        entered = answers.version(proposal)
        if entered != record.entered:
            # A call that repeats an earlier one is about the state in which its card was seen.
            state = self._state_seen(record, entered) if self.was_made(record_id, op_id) else ""
            if not state:
                raise answers.stale(proposal)
        trigger = answers.trigger(state, choice)
        call = replace(self.call(op_id, ""), warrant=Warrant.person(entered))
        payload = answers.payload(state, trigger, answer or {}, self.actor)
        fired = self.dispatch.lifecycle.fire(record.id, trigger, payload, call)
        return fired.record or self.show(record_id)

    def check_choice(self, record_id: str, choice: str) -> None:
        """Raise CallError, with the choices that there are, if no open card takes this one."""
        record = self.show(record_id)
        names = [offer.name for one in self.open_cards.of([record]) for offer in one.affordances]
        if choice not in names:
            self.answers(record).trigger(record.state, choice, names)

    def answers(self, record: Record) -> CardAnswers:
        """Return what answers to the cards of a record mean."""
        return CardAnswers(
            self.dispatch.lifecycle.machine(record.machine),
            record,
            lambda: self.registry,
            self.run_refusal,
        )

    def _state_seen(self, record: Record, entered: int) -> str:
        """Return the state that was entered with this version, or ''."""
        events = (line for line in self.history(record.id) if isinstance(line, Event))
        return next((event.target for event in events if event.version == entered), "")
