"""Acts on several records at once: a page shows which, and its button is about exactly these."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Query, Request, Response

from interlock.kernel.errors import CallError
from interlock.workers.console.render import PageRoute, page
from interlock.workers.console.search import conditions
from interlock.workers.console.sessions import Operating
from interlock.workers.engine.bulk import BulkVerb

router = APIRouter(route_class=PageRoute, include_in_schema=False)

ITEMS_MAX = 100


@router.get("/bulk")
def choose(
    request: Request,
    client: Operating,
    verb: BulkVerb,
    q: Annotated[str, Query(max_length=500)] = "",
    cursor: Annotated[str, Query(max_length=500)] = "",
) -> Response:
    """Show which records would be acted on, and which not, and why. Nothing is changed."""
    now_ms = client.dispatch.views.now_ms()
    wanted = conditions(q, now_ms, client.machines)
    if not wanted:
        raise CallError(
            "search for some records first: without a search this would be about every record"
        )
    found = client.page(limit=ITEMS_MAX, cursor=cursor, newest=False, **wanted)
    planned = client.bulk(verb).each(found.ids, dry_run=True)
    # A record that is damaged has an error: no verb is offered for it.
    rows = [
        (row, item.why_not) for row, item in zip(found.rows, planned, strict=True) if not item.error
    ]
    return page(
        request,
        "bulk.html",
        verb=verb,
        q=q,
        rows=[row for row, why in rows if not why],
        unchanged=[(row, why) for row, why in rows if why],
        now_ms=now_ms,
        following=found.cursor,
        answers=None,
    )


@router.post("/bulk")
def act(
    request: Request,
    client: Operating,
    verb: Annotated[BulkVerb, Form()],
    record: Annotated[list[str], Form(max_length=ITEMS_MAX)],
    reason: Annotated[str, Form(max_length=2_000)] = "",
    q: Annotated[str, Form(max_length=500)] = "",
) -> Response:
    """Act on the records that were shown, and say of each what was done or why it was not."""
    request.app.state.rates.count(client.actor, len(record) - 1)  # the call counts as one
    items = client.bulk(verb).each(record, reason=reason)
    refusals = [item.why_not or str(item.error or "") for item in items]
    answers = [
        (item.id, why or item.answer, not why) for item, why in zip(items, refusals, strict=True)
    ]
    return page(request, "bulk.html", verb=verb, q=q, rows=(), unchanged=(), answers=answers)
