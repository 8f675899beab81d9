"""The inbox: everything that a person is asked, and the pages on which it is answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse

from interlock.kernel.errors import (
    AnotherVersionError,
    CallError,
    InvalidPayloadError,
    StaleDecisionError,
)
from interlock.workers.client import Client
from interlock.workers.console.answer_forms import consent_of, fields_sent
from interlock.workers.console.answer_results import result_of, still_at_work
from interlock.workers.console.card_page import RefusedAnswer, show_cards
from interlock.workers.console.card_summary import SUGGESTED, is_call
from interlock.workers.console.consequences import final_of_call
from interlock.workers.console.forms import FormField, answer_of, problems_by_field
from interlock.workers.console.inbox_order import InboxList, look_at_inbox, neighbours
from interlock.workers.console.live import looked_up
from interlock.workers.console.plain_words import action_of_card
from interlock.workers.console.render import PageRoute, page, path_of
from interlock.workers.console.sessions import Deciding, Reading
from interlock.workers.engine.answer_commands import needs_answer
from interlock.workers.engine.answer_schema import NO_FIELDS
from interlock.workers.engine.card import Affordance, Card, Suggestion

router = APIRouter(route_class=PageRoute, include_in_schema=False)

MARKED = "correct the fields below that say what is wrong"
CHANGED = "the question has changed, or somebody answered it"
FROM_LINK = ("choice", "capability", "seen", "list")
SURE = "sure"  # the field of who was asked once more, and said yes
AT_ONCE = "at_once"  # the field of who changes an action and agrees to it
KEPT = "Your change was made, but the action is not done"
NOTHING = Affordance("", "", NO_FIELDS, "")  # an answer that no open card takes


@dataclass(frozen=True, slots=True)
class SentAnswer:
    """An answer that a form gives to a card: a suggested one, or a choice with its fields."""

    record_id: str
    proposal: str
    card: Card | None
    offer: Affordance
    fields: tuple[FormField, ...]
    suggestion: Suggestion | None


@router.get("/inbox")
def inbox(request: Request, client: Reading) -> Response:
    """List open cards: those with a deadline that comes, then by priority, then by age.

    In the order of families, the cards of each family come together, where its first one would be.
    """
    shown = InboxList.of_query(request.url.query)
    seen = looked_up(request, client, lambda: look_at_inbox(client, shown.cursor, shown.wanted))
    following = replace(shown, cursor=seen.cursor).query if seen.cursor else ""
    answered = result_of(client, request.query_params.get("answered", ""))
    return page(
        request,
        "inbox.html",
        seen=seen,
        cards=seen.cards,
        summaries=seen.summaries(client.actor),
        shown=shown,
        wanted=shown.wanted,
        order=shown.order,
        filters=urlencode(shown.wanted),
        query=shown.query,
        machines=list(client.machines),
        escalates=bool(client.settings.escalations),
        choices=_choices(seen.cards),
        now_ms=seen.now_ms,
        following=f"/inbox?{following}" if following else "",
        answered=answered,
        at_work=[] if seen.cards else still_at_work(client, answered),
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
    except (AnotherVersionError, CallError) as refusal:
        status = 409 if isinstance(refusal, StaleDecisionError) else 422
        problem = RefusedAnswer(f"That was not noted: {refusal}.", status)
        return show_cards(request, client, record_id, texts={}, problem=problem)
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
    answer = _sent(client, record_id, texts)
    wrong: Mapping[str, str] = {}
    try:
        following = neighbours(client, record_id, InboxList.of_query(texts.get("list", ""))).next
        if asks_again := _give(request, client, answer, texts):
            return asks_again
    except InvalidPayloadError as refusal:
        wrong, others = problems_by_field(answer.fields, refusal)
        why, status = "; ".join([*([MARKED] if wrong else []), *others]), 422
    except StaleDecisionError:
        why, status = CHANGED, 409
    except (AnotherVersionError, CallError) as refusal:
        why, status = str(refusal), 422
    else:
        # What was only changed asks again, so its own card is the next one.
        is_asked = client.cards_of(record_id)
        return _go_on(record_id, record_id if is_asked else following, texts)
    problem = RefusedAnswer(f"Your answer was not given: {why}.", status, wrong)
    return show_cards(request, client, record_id, texts=texts, problem=problem)


def _sent(client: Client, record_id: str, texts: Mapping[str, str]) -> SentAnswer:
    """Return the answer that a form gives. One that no open card takes the client refuses."""
    proposal, choice = texts.get("proposal", ""), texts.get("choice", "")
    card = next((one for one in client.cards_of(record_id) if one.proposal == proposal), None)
    number = texts.get(SUGGESTED, "")
    suggested = {str(at): one for at, one in enumerate(card.suggestions if card else ())}
    suggestion = suggested.get(number)
    offers = {one.name: one for one in (card.affordances if card else ())}
    offer = offers.get(suggestion.choice if suggestion else choice, replace(NOTHING, name=choice))
    fields = () if suggestion else fields_sent(offer, card, texts)
    return SentAnswer(record_id, proposal, card, offer, fields, suggestion)


def _give(
    request: Request, client: Client, answer: SentAnswer, texts: Mapping[str, str]
) -> Response | None:
    """Give an answer, or return the page that asks about it once more.

    Who changes an action and has it done agrees to the new proposal too, as by an answer to it. If
    that is refused, the card of the new proposal is shown and says why.
    """
    offer, card, is_sure = answer.offer, answer.card, bool(texts.get(SURE))
    suggestion = answer.suggestion
    given = dict(suggestion.answer) if suggestion else answer_of(answer.fields, texts)
    final = offer.final or final_of_call(client, offer, card, given)
    if card and final and not is_sure:
        says = suggestion.says if suggestion else offer.says
        called = given if given.get("capability") else action_of_card(card)
        return _ask_again(request, card, says, final, called, texts)
    after = client.decide(answer.record_id, offer.name, given, proposal=answer.proposal)
    if not (texts.get(AT_ONCE) or (suggestion and is_call(suggestion))):
        return None
    made = next((one for one in client.cards_of(after.id) if one.proposal == after.proposal), None)
    consent = consent_of(made) if made else None
    if made is None or consent is None:
        return None
    place = {name: texts[name] for name in ("list", "from") if name in texts}
    try:
        # Who was asked about a call that is made again has seen exactly its values.
        if consent.final and not (suggestion and is_sure):
            sent = {**place, "proposal": made.proposal, "choice": consent.name}
            called = action_of_card(made)
            return _ask_again(request, made, consent.says, consent.final, called, sent)
        client.decide(after.id, consent.name, proposal=made.proposal)
    except (AnotherVersionError, CallError) as refusal:
        why = CHANGED if isinstance(refusal, StaleDecisionError) else str(refusal)
        problem = RefusedAnswer(f"{KEPT}: {why}.", 409)
        return show_cards(request, client, after.id, texts=place, problem=problem)
    return None


def _ask_again(
    request: Request,
    card: Card,
    says: str,
    final: str,
    called: Mapping[str, Any],
    texts: Mapping[str, str],
) -> Response:
    """Ask once more about an answer that cannot be taken back. Nothing is done."""
    values: dict[str, Any] = {"card": card, "says": says, "final": final, "texts": texts}
    return page(request, "sure.html", parameters=called.get("parameters") or {}, **values)


def _go_on(record_id: str, following: str, texts: Mapping[str, str]) -> Response:
    """Lead from an answer about a record to the card that follows, or back to the list."""
    shown = InboxList.of_query(texts.get("list", ""))
    said = urlencode({"answered": record_id})
    if texts.get("from") == "list" or not following:
        return RedirectResponse(f"/inbox?{shown.query}{'&' if shown.query else ''}{said}", 303)
    among = f"&{urlencode({'list': shown.query})}" if shown.query else ""
    return RedirectResponse(f"/inbox/{path_of(following)}?{said}{among}", 303)
