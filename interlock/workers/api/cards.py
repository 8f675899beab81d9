"""The addresses of cards: the open ones, those of a record, and who is on one of them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from interlock.workers.api.access import Deciding, Key, Reading
from interlock.workers.api.models import CardClaimBody, CardList, CardReleaseBody
from interlock.workers.api.problems import PROBLEMS
from interlock.workers.engine.card import Card

router = APIRouter(prefix="/v1", tags=["cards"], responses=PROBLEMS)

TEXT_MAX = 200
TAGS = "Tags, with commas between; a card has to have all of them."
ESCALATED = "Names of people and roles, with commas between, to whom it is escalated; * for all."
Id = Annotated[str, Path(description="The id of a record, with its slashes as they are.")]
Word = Annotated[str, Query(max_length=TEXT_MAX)]


@router.get("/cards", operation_id="listCards")
def cards(
    client: Reading,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
    cursor: str = "",
    machine: Word = "",
    kind: Word = "",
    tree: Annotated[str, Query(max_length=TEXT_MAX, description="The root of a family.")] = "",
    text: Annotated[str, Query(max_length=TEXT_MAX, description="Words of the title.")] = "",
    tag: Annotated[str, Query(max_length=TEXT_MAX, description=TAGS)] = "",
    holder: Annotated[str, Query(max_length=TEXT_MAX, description="Who has claimed it.")] = "",
    escalated: Annotated[str, Query(max_length=TEXT_MAX, description=ESCALATED)] = "",
) -> CardList:
    """List the open cards of at most so many records, the longest waiting first."""
    page = client.cards_page(
        limit=limit,
        cursor=cursor,
        machine=machine,
        kind=kind,
        tree=tree,
        text=text,
        tag=tag,
        holder=holder,
        escalated=escalated,
    )
    return CardList(cards=list(page.cards), next=page.cursor)


@router.get("/records/{record_id:path}:cards", operation_id="showCards")
def cards_of(record_id: Id, client: Reading) -> list[Card]:
    """Return the open cards of a record."""
    return client.cards_of(record_id)


@router.post("/records/{record_id:path}:claim-card", operation_id="claimCard")
def claim(record_id: Id, body: CardClaimBody, client: Deciding, key: Key = None) -> list[Card]:
    """Note that the caller is on a card, or the holder to whom it is handed over.

    It stops nobody from answering. The record's open cards are returned.
    """
    return client.claim_card(record_id, proposal=body.proposal, holder=body.holder, op_id=key)


@router.post("/records/{record_id:path}:release-card", operation_id="releaseCard")
def release(record_id: Id, body: CardReleaseBody, client: Deciding) -> list[Card]:
    """Note that nobody is on a card any more. The record's open cards are returned."""
    return client.release_card(record_id, proposal=body.proposal)
