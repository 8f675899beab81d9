"""The inbox: everything that a person is asked, and the pages on which it is answered."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse

from interlock.kernel.errors import CallError, StaleDecisionError
from interlock.workers.client import Client
from interlock.workers.console.forms import answer_of, fields_of
from interlock.workers.console.render import PageRoute, page, path_of
from interlock.workers.console.sessions import Deciding, Reading
from interlock.workers.engine.card import NO_FIELDS, Affordance, Card, action_of
from interlock.workers.ops.description import line_shown

router = APIRouter(route_class=PageRoute, include_in_schema=False)

CARDS = 200
LINES = 8
Name = Annotated[str, Query(max_length=100)]


@router.get("/inbox")
def inbox(request: Request, client: Reading, machine: Name = "", kind: Name = "") -> Response:
    """List the open cards, the longest waiting first."""
    every = client.cards(limit=CARDS)
    shown = [card for card in every if machine in ("", card.machine) and kind in ("", card.kind)]
    return page(
        request,
        "inbox.html",
        cards=shown,
        machine=machine,
        kind=kind,
        machines=sorted({card.machine for card in every}),
        kinds=sorted({card.kind for card in every}),
        now_ms=client.dispatch.views.now_ms(),
        is_cut=len(every) >= CARDS,
    )


@router.get("/inbox/{record_id:path}")
def cards(request: Request, record_id: str, client: Reading) -> Response:
    """Show the open cards of a record, with a form for each possible answer."""
    return _questions(request, client, record_id)


@router.post("/inbox/{record_id:path}")
async def answer(request: Request, record_id: str, client: Deciding) -> Response:
    """Answer a card. If it is not open any more, say what has happened since it was shown."""
    form = await request.form()
    texts = {name: value for name, value in form.items() if isinstance(value, str)}
    return await run_in_threadpool(_answer, request, client, record_id, texts)


def _answer(request: Request, client: Client, record_id: str, texts: dict[str, str]) -> Response:
    proposal, choice = texts.get("proposal", ""), texts.get("choice", "")
    offered = {
        (card.proposal, each.name): each.schema
        for card in client.cards_of(record_id)
        for each in card.affordances
    }
    # An answer that no open card takes is refused by the client.
    schema = offered.get((proposal, choice), NO_FIELDS)
    try:
        found = answer_of(fields_of(schema, {}), texts)
        client.decide(record_id, choice, found, proposal=proposal)
    except StaleDecisionError:
        problem = "Your answer was not given: the question has changed, or somebody answered it."
        return _questions(request, client, record_id, problem, texts, status=409)
    except CallError as refusal:
        problem = f"Your answer was not given: {refusal}."
        return _questions(request, client, record_id, problem, texts, status=422)
    return RedirectResponse(f"/records/{path_of(record_id)}", 303)


def _questions(
    request: Request,
    client: Client,
    record_id: str,
    problem: str = "",
    texts: dict[str, str] | None = None,
    *,
    status: int = 200,
) -> Response:
    record = client.show(record_id)
    views = client.dispatch.views
    open_cards = client.cards_of(record_id)
    forms = [
        (card, [(each, _fields(card, each, texts or {})) for each in card.affordances])
        for card in open_cards
    ]
    return page(
        request,
        "card.html",
        status,
        record=record,
        forms=forms,
        problem=problem,
        action=action_of(record.data),
        lines=[line_shown(line) for line in views.latest([record_id], LINES)[record_id]],
        now_ms=views.now_ms(),
    )


def _fields(card: Card, offer: Affordance, texts: dict[str, str]) -> list[dict[str, Any]]:
    """Return the fields of one answer, with the texts of the form that was sent, if it was that."""
    proposed = {**card.proposed, **(card.proposed.get("payload") or {})}
    was_sent = texts.get("choice") == offer.name
    found = []
    for field in fields_of(offer.schema, proposed):
        value = texts.get(field.name, field.value) if was_sent else field.value
        found.append({"field": field, "value": value})
    return found
