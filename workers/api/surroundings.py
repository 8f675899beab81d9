"""The addresses beside those of records: machines, open cards, and whether the store answers."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from interlock.workers.api.access import Acting
from interlock.workers.api.models import Fields
from interlock.workers.ops.outline import outline

router = APIRouter(tags=["surroundings"])


@router.get("/v1/machines")
def machines(client: Acting) -> list[str]:
    """Return the names of all machines."""
    return list(client.machines)


@router.get("/v1/machines/{name}")
def machine(name: str, client: Acting) -> Fields:
    """Return the table of a machine: its states, and its rows with who may fire them."""
    return outline(client.dispatch.lifecycle.machine(name))


@router.get("/v1/cards")
def cards(client: Acting, limit: Annotated[int, Query(ge=1, le=500)] = 100) -> list[Fields]:
    """Return the open cards, the longest waiting first."""
    return [card.as_data() for card in client.cards(limit=limit)]


@router.get("/healthz")
def health(client: Acting) -> dict[str, int]:
    """Return the time of the store in ms; a store that does not answer is a problem, with 503."""
    return {"store_ms": client.dispatch.views.now_ms()}
