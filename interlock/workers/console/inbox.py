"""The inbox: everything that a person is asked, and the pages on which it is answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse

from interlock.kernel.errors import CallError, InvalidPayloadError, StaleDecisionError
from interlock.kernel.record import root_of
from interlock.workers.client import Client
from interlock.workers.console.card_page import answer_fields, show_cards
from interlock.workers.console.forms import answer_of, problems_by_field, without_unchanged
from interlock.workers.console.live import looked_up
from interlock.workers.console.render import PageRoute, page, path_of
from interlock.workers.console.sessions import Deciding, Reading
from interlock.workers.engine.answer_commands import needs_answer, text_field
from interlock.workers.engine.card import NO_FIELDS, Card
from interlock.workers.engine.open_cards import WantedCards

router = APIRouter(route_class=PageRoute, include_in_schema=False)

CARDS = 50
SOON_MS = 24 * 3_600_000  # a deadline that comes within this time makes a card urgent
MARKED = "correct the fields below that say what is wrong"
FROM_LINK = ("choice", "capability", "seen")
Name = Annotated[str, Query(max_length=200)]
Cursor = Annotated[str, Query(max_length=300)]  # it has a time and an id


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
    """A page of the inbox as it was read: cards in their order, and the next page's cursor.

    The deadlines of the first `urgent` cards come within a day.
    """

    now_ms: int
    cards: tuple[Card, ...]
    urgent: int
    families: tuple[CardFamily, ...]
    cursor: str


@router.get("/inbox")
def inbox(
    request: Request,
    client: Reading,
    machine: Name = "",
    kind: Name = "",
    tree: Name = "",
    text: Name = "",
    tag: Name = "",
    holder: Name = "",
    escalated: Name = "",
    cursor: Cursor = "",
    order: Literal["families", "cards"] = "families",
) -> Response:
    """List open cards: those with a deadline that comes, then by priority, then by age.

    In the order of families, the cards of each family come together, where its first one would be.
    """
    wanted: WantedCards = {
        "machine": machine,
        "kind": kind,
        "tree": tree,
        "text": text,
        "tag": tag,
        "holder": holder,
        "escalated": escalated,
    }
    seen = looked_up(request, client, lambda: _look(client, cursor, wanted))
    query = urlencode({**wanted, "order": order})
    following = f"/inbox?{query}&{urlencode({'cursor': seen.cursor})}" if seen.cursor else ""
    return page(
        request,
        "inbox.html",
        seen=seen,
        cards=seen.cards,
        wanted=wanted,
        order=order,
        filters=urlencode(wanted),
        query=request.url.query,
        machines=list(client.machines),
        escalates=bool(client.settings.escalations),
        choices=_choices(seen.cards),
        now_ms=seen.now_ms,
        is_first=not cursor,
        following=following,
    )


def _look(client: Client, cursor: str, wanted: WantedCards) -> InboxLook:
    now_ms = client.dispatch.views.now_ms()
    open_cards = replace(client.open_cards, describes=False)
    urgent = [] if cursor else open_cards.due(now_ms + SOON_MS, **wanted)[:CARDS]
    found = open_cards.page(CARDS, cursor, **wanted)
    known = {card.proposal for card in urgent}
    others = [card for card in found.cards if card.proposal not in known]
    cards = (*urgent, *sorted(others, key=lambda card: card.priority))
    return InboxLook(now_ms, cards, len(urgent), _families(client, cards), found.cursor)


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


def _choices(cards: Sequence[Card]) -> list[str]:
    """Return the answers that need no fields, and so can be given to several cards at once."""
    offers = (offer for card in cards for offer in card.affordances)
    return list(dict.fromkeys(one.name for one in offers if not needs_answer(one.schema)))


@router.get("/inbox/{record_id:path}")
def cards(request: Request, record_id: str, client: Reading) -> Response:
    """Show the open cards of a record, with a form for each possible answer.

    A link may open the form of a `choice`, for a `capability`. It fills nothing in.
    """
    texts = {name: request.query_params.get(name, "") for name in FROM_LINK}
    return show_cards(request, client, record_id, texts=texts)


@router.post("/inbox/{record_id:path}")
async def answer(request: Request, record_id: str, client: Deciding) -> Response:
    """Answer a card. If it is not open any more, say what has happened since it was shown."""
    form = await request.form()
    # Browsers end each line with two characters.
    texts = {
        name: value.replace("\r\n", "\n") for name, value in form.items() if isinstance(value, str)
    }
    return await run_in_threadpool(_answer, request, client, record_id, texts)


@router.post("/claim/{record_id:path}")
def claim(
    request: Request,
    record_id: str,
    client: Deciding,
    proposal: Annotated[str, Form()],
    do: Annotated[Literal["claim", "hand over", "release"], Form()],
    holder: Annotated[str, Form()] = "",
) -> Response:
    """Note who is on a card, and show it."""
    try:
        _note_claim(client, record_id, proposal, do, holder.strip())
    except CallError as refusal:
        status = 409 if isinstance(refusal, StaleDecisionError) else 422
        problem = f"That was not noted: {refusal}."
        return show_cards(request, client, record_id, texts={}, problem=problem, status=status)
    return RedirectResponse(f"/inbox/{path_of(record_id)}", 303)


def _note_claim(client: Client, record_id: str, proposal: str, do: str, holder: str) -> None:
    if do == "release":
        client.release_card(record_id, proposal=proposal)
    elif do == "claim":
        client.claim_card(record_id, proposal=proposal)
    elif holder:
        client.claim_card(record_id, proposal=proposal, holder=holder)
    else:
        raise CallError("write the name of the person to whom you hand it over")


def _answer(request: Request, client: Client, record_id: str, texts: dict[str, str]) -> Response:
    proposal, choice = texts.get("proposal", ""), texts.get("choice", "")
    offered = {
        (card.proposal, each.name): (each.schema, card)
        for card in client.cards_of(record_id)
        for each in card.affordances
    }
    # An answer that no open card takes is refused by the client.
    schema, card = offered.get((proposal, choice), (NO_FIELDS, None))
    fields, wrong = answer_fields(schema, card, texts), dict[str, str]()
    try:
        sent = without_unchanged(fields, texts, text_field(choice))
        client.decide(record_id, choice, answer_of(fields, sent), proposal=proposal)
    except InvalidPayloadError as refusal:
        wrong, others = problems_by_field(fields, refusal)
        said = [*([MARKED] if wrong else []), *others]
        problem, status = f"Your answer was not given: {'; '.join(said)}.", 422
    except StaleDecisionError:
        problem = "Your answer was not given: the question has changed, or somebody answered it."
        status = 409
    except CallError as refusal:
        problem, status = f"Your answer was not given: {refusal}.", 422
    else:
        return RedirectResponse(f"/records/{path_of(record_id)}", 303)
    return show_cards(
        request, client, record_id, texts=texts, problem=problem, wrong=wrong, status=status
    )
