"""One answer to several cards: a page names each before, and says of each what was done after."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Form, Query, Request, Response

from interlock.kernel.errors import CallError, KernelError, UnknownRecordError
from interlock.workers.client import Client
from interlock.workers.console.card_page import is_withheld
from interlock.workers.console.card_summary import CardSummary, summary_of
from interlock.workers.console.consequences import Consequences, consequences, leads_to
from interlock.workers.console.render import PageRoute, page
from interlock.workers.console.sessions import Deciding
from interlock.workers.engine.answer_commands import needs_answer, text_field
from interlock.workers.engine.card import Card
from interlock.workers.terminal.page import StateName

router = APIRouter(route_class=PageRoute, include_in_schema=False)

CARDS_MAX = 100
Choice = Annotated[str, Query(max_length=100)]


@dataclass(frozen=True, slots=True)
class ChosenCard:
    """A card that was ticked, with what the answer would do to it; or why it cannot be given."""

    proposal: str
    card: Card | None
    summary: CardSummary | None = None
    consequences: Consequences | None = None
    leads_to: str = ""
    takes_reason: bool = False
    refusal: str = ""


@router.get("/answers")
def ask(
    request: Request,
    client: Deciding,
    choice: Choice,
    proposal: Annotated[list[str], Query(max_length=CARDS_MAX)] = [],  # noqa: B006 - FastAPI copies it
) -> Response:
    """Show which cards would get this answer. Nothing is changed."""
    if not proposal:
        raise CallError("tick first the cards that you want to answer")
    chosen = [_chosen(client, one, choice) for one in dict.fromkeys(proposal)]
    return page(request, "answers.html", choice=choice, chosen=chosen, results=None)


@router.post("/answers")
def answer(
    request: Request,
    client: Deciding,
    choice: Annotated[str, Form(max_length=100)],
    proposal: Annotated[list[str], Form(max_length=CARDS_MAX)],
    reason: Annotated[str, Form(max_length=2_000)] = "",
) -> Response:
    """Give each card that was shown this answer, and say of each what became of it."""
    request.app.state.rates.count(client.actor, len(proposal) - 1)  # the call counts as one
    results: list[tuple[str, str, StateName | str, bool]] = []
    for one in dict.fromkeys(proposal):
        found = _chosen(client, one, choice)
        title = found.card.title if found.card else _record_of(one)
        try:
            if found.refusal:
                raise CallError(found.refusal)
            fields = {text_field(choice): reason} if reason and found.takes_reason else {}
            after = client.decide(_record_of(one), choice, fields, proposal=one)
            results.append((one, title, StateName.of(after), True))
        except KernelError as refusal:
            results.append((one, title, str(refusal), False))
    return page(request, "answers.html", choice=choice, chosen=(), results=results)


def _chosen(client: Client, proposal: str, choice: str) -> ChosenCard:
    try:
        record = client.show(_record_of(proposal))
        if record.machine not in client.machines:
            raise UnknownRecordError(record.id)
    except KernelError as refusal:
        return ChosenCard(proposal, None, refusal=str(refusal))
    cards = client.open_cards.of([record])
    card = next((one for one in cards if one.proposal == proposal), None)
    if card is None:
        sentence = "the question has changed, or somebody answered it"
        return ChosenCard(proposal, None, refusal=sentence)
    offer = next((one for one in card.affordances if one.name == choice), None)
    if offer is None or needs_answer(offer.schema):
        why = "needs more than a reason" if offer else "is no answer to this card"
        return ChosenCard(proposal, card, refusal=f"{choice!r} {why}: open it by itself")
    if is_withheld(client, record, card, offer):
        sentence = f"you are {client.actor}, and only {', '.join(card.deciders)} may {choice}"
        return ChosenCard(proposal, card, refusal=sentence)
    return ChosenCard(
        proposal,
        card,
        summary_of(card, record, client.actor, client.dispatch.views.now_ms()),
        consequences(client, record, card),
        leads_to(client.dispatch.lifecycle.machine(record.machine), record, offer.trigger),
        takes_reason=text_field(choice) in _properties(offer.schema),
    )


def _properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = schema.get("properties") or {}
    return found


def _record_of(proposal: str) -> str:
    """Return the record whose card has this proposal: no id has a colon."""
    return proposal.partition(":")[0]
