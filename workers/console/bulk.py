"""Acts on several records at once: a page shows which, and its button is about exactly these."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Query, Request, Response

from interlock.kernel.errors import CallError, KernelError, UnknownRecordError
from interlock.workers.api.models import BulkVerb
from interlock.workers.api.records import verbs
from interlock.workers.console.render import PageRoute, page
from interlock.workers.console.search import conditions
from interlock.workers.console.sessions import Operating

router = APIRouter(route_class=PageRoute, include_in_schema=False)

ITEMS_MAX = 100


@router.get("/bulk")
def choose(
    request: Request,
    client: Operating,
    verb: BulkVerb,
    q: Annotated[str, Query(max_length=500)] = "",
) -> Response:
    """Show which records would be acted on. Nothing is changed."""
    now_ms = client.dispatch.views.now_ms()
    wanted = conditions(q, now_ms)
    if not wanted:
        raise CallError("search for some records first: this would be about every record")
    found = client.page(limit=ITEMS_MAX, newest=False, **wanted)
    return page(
        request,
        "bulk.html",
        verb=verb,
        q=q,
        rows=found.rows,
        now_ms=now_ms,
        is_cut=bool(found.cursor),
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
    change = verbs(client)[verb]
    answers = []
    for one in record:
        try:
            if client.show(one).machine not in client.machines:
                raise UnknownRecordError(one)
            answers.append((one, change(one, reason), True))
        except KernelError as refusal:
            answers.append((one, str(refusal), False))
    return page(request, "bulk.html", verb=verb, q=q, rows=(), answers=answers)
