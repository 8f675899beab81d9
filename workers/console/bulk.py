"""Acts on several records at once: a page shows which, and its button is about exactly these."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter, Form, Query, Request, Response

from interlock.kernel.errors import (
    CallError,
    IllegalTransitionError,
    KernelError,
    UnknownRecordError,
)
from interlock.kernel.machine import Machine
from interlock.kernel.record import Record
from interlock.kernel.table import Terminal
from interlock.workers.api.models import BulkVerb
from interlock.workers.api.records import verbs
from interlock.workers.console.record_look import may_cancel
from interlock.workers.console.render import PageRoute, page
from interlock.workers.console.search import conditions
from interlock.workers.console.sessions import Operating

router = APIRouter(route_class=PageRoute, include_in_schema=False)

ITEMS_MAX = 100
# Why a record stays as it is: by the verb, and by what the store answers to it.
UNCHANGED: Mapping[tuple[str, str], str] = {
    ("pause", "ended"): "it has ended",
    ("pause", "already"): "it is paused already",
    ("resume", "already"): "it is not paused",
    ("retry", "nothing"): "none of its effects waits for its next attempt, or for a person",
}


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
    wanted = conditions(q, now_ms)
    if not wanted:
        raise CallError("search for some records first: this would be about every record")
    found = client.page(limit=ITEMS_MAX, cursor=cursor, newest=False, **wanted)
    ids = (row.id for row in found.rows)
    records = client.dispatch.views.records(ids, readable_by=client.machines)
    rows = [
        (row, why_not(client.machines[row.machine], records[row.id], verb, now_ms))
        for row in found.rows
        if row.id in records
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
    change = verbs(client)[verb]
    answers = []
    for one in record:
        try:
            if client.show(one).machine not in client.machines:
                raise UnknownRecordError(one)
            said = change(one, reason)
            why = UNCHANGED.get((verb, said), "")
            answers.append((one, why or said, not why))
        except KernelError as refusal:
            answers.append((one, str(refusal), False))
    return page(request, "bulk.html", verb=verb, q=q, rows=(), unchanged=(), answers=answers)


def why_not(machine: Machine, record: Record, verb: BulkVerb, now_ms: int) -> str:
    """Return why a verb would leave a record as it is now, or ''."""
    status, legal = "", machine.legal(record.state)
    match verb:
        case "cancel":
            if not may_cancel(machine, record.state):
                return str(IllegalTransitionError(machine.name, record.state, verb, legal))
        case "pause":
            has_ended = isinstance(machine.stage(record.state), Terminal)
            status = "ended" if has_ended else "already" if record.paused else ""
        case "resume":
            status = "" if record.paused else "already"
        case "retry":
            waits = (
                each.state == "owed" and (each.asks_person or now_ms < each.not_before)
                for each in record.entries
            )
            may = record.quarantined or (not record.paused and any(waits))
            status = "" if may else "nothing"
    return UNCHANGED.get((verb, status), "")
