"""Serves the start page, the list of records, and the acts that create or change one record."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, get_args
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Query, Request, Response
from fastapi.responses import RedirectResponse

from interlock.kernel.errors import (
    CallError,
    InvalidIdError,
    UnknownMachineError,
    UnknownRecordError,
)
from interlock.kernel.table import Terminal
from interlock.workers.client import Client
from interlock.workers.console.flow import Flow, FlowWatch
from interlock.workers.console.live import RENEWS, looked_up
from interlock.workers.console.operate import FILE_MAX
from interlock.workers.console.render import PageRoute, page, path_of
from interlock.workers.console.search import (
    COLUMNS,
    SHOWN,
    Columns,
    FoundRecords,
    actor_of,
    address_query,
    search,
    submitters,
)
from interlock.workers.console.series import Samples, series
from interlock.workers.console.sessions import Operating, Reading, Submitting
from interlock.workers.console.system_pages import pages_of
from interlock.workers.engine.bulk import BulkVerb
from interlock.workers.engine.card import QUARANTINE
from interlock.workers.systems import plain_request

router = APIRouter(route_class=PageRoute, include_in_schema=False)

ROWS = 50
Text = Annotated[str, Query(max_length=500)]


@router.get("/")
def flow(request: Request, client: Reading) -> Response:
    """Show whether work flows."""
    watch: FlowWatch = request.app.state.flow
    samples: Samples = request.app.state.samples
    found = watch.look()
    sees_all = not request.state.caller.machines
    asked = sum(found.questions.of_machine(name) for name in client.machines)
    return page(
        request,
        "flow.html",
        flow=found,
        machines=[row for row in found.machines if row.name in client.machines],
        series={name: series(samples.kept, name) for name in client.machines},
        troubles=list(_troubles(found, client, sees_all=sees_all)),
        partly_searched=_partly_searched(found, client),
        notices=found.notices if sees_all else [],
        plain=plain_request(),
        waits=found.depths["waits"] if sees_all else asked,
        longest_ms=found.oldest_ms.get("waits") if sees_all else None,
        listed=watch.listed(client.machines),
    )


def _troubles(found: Flow, client: Client, *, sees_all: bool) -> Iterator[tuple[str, str, str]]:
    """Yield what a person has to act on: a sentence, and a link with its text, or ''.

    The problems of the deployment name records of any machine, so only who sees all reads them.
    """
    if sees_all:
        yield from ((problem, "", "") for problem in found.problems)
    elif number := len(found.problems):
        problems = "1 problem" if number == 1 else f"{number} problems"
        sentence = f"The deployment has {problems}: a token for all machines shows what to do."
        yield sentence, "", ""
    if given_up := found.questions.of_kind(QUARANTINE, client.machines):
        one, more = "1 record has an effect that has", "records have effects that have"
        effects = one if given_up == 1 else f"{given_up} {more}"
        sentence = f"{effects} failed too often: repair the cause, then retry."
        yield sentence, f"/inbox?kind={QUARANTINE}", "See what failed"
    pages = pages_of(client)
    for name, count in found.starved.items():
        if count.number and name in pages:
            records = "1 record waits" if count.number == 1 else f"{count.number:,} records wait"
            records = f"At least {records}" if count.is_minimum else records
            sentence = f"{records} for something that can never come."
            yield sentence, f"/systems/{name}", f"See why, in {pages[name].title}"
    if found.rejected:
        messages = "1 message is" if found.rejected == 1 else f"{found.rejected} messages are"
        sentence = (
            f"{messages} kept that no worker can act on: `interlock rejected list` shows why,"
            " `interlock rejected replay` or `drop` ends it."
        )
        yield sentence, "", ""


def _partly_searched(found: Flow, client: Client) -> list[str]:
    """Return the titles of the systems in which no record was found starved, among some of all."""
    pages, counts = pages_of(client), found.starved.items()
    unsure = [name for name, count in counts if count.is_minimum and not count.number]
    return [pages[name].title for name in unsure if name in pages]


@router.get("/records")
def records(
    request: Request,
    client: Reading,
    q: Text = "",
    order: Literal["newest", "oldest"] = "newest",
    cursor: Text = "",
    columns: Columns = [],  # noqa: B006 - FastAPI copies it
) -> Response:
    """List the records that are searched for. An id leads to its record, a name to its acts."""
    if name := actor_of(q):
        return RedirectResponse(f"/acts?{urlencode({'by': name})}", 303)
    if q and RENEWS not in request.headers and _is_record(client, q.strip()):
        return RedirectResponse(f"/records/{path_of(q.strip())}", 303)

    shown = tuple(each for each in COLUMNS if each in (columns or SHOWN))

    def read() -> tuple[int, FoundRecords, dict[str, str]]:
        found = search(client, q, cursor=cursor, newest=order == "newest", limit=ROWS)
        who = submitters(client, found.rows) if "who" in shown else {}
        return client.now_ms(), found, who

    now_ms, found, who = looked_up(request, client, read)
    chosen = () if shown == SHOWN else shown
    query = address_query(q, order, chosen)
    following = f"/records?{query}&{urlencode({'cursor': found.cursor})}" if found.cursor else ""
    return page(
        request,
        "records.html",
        400 if found.said and not found.rows else 200,
        rows=found.rows,
        who=who,
        q=q,
        order=order,
        cursor=cursor,
        columns=shown,
        all_columns=tuple(COLUMNS),
        chosen=urlencode({"column": chosen}, doseq=True),
        now_ms=now_ms,
        following=following,
        machines=[name for name in used_machines(request) if name in client.machines],
        ends=_ends(client),
        said=found.said,
        near=found.near,
        verbs=get_args(BulkVerb),
        views=[] if RENEWS in request.headers else client.dispatch.saved_views.all(),
        path=f"/records?{query}",
        query=query,
        file_max=FILE_MAX,
    )


@router.post("/requests")
def new_request(client: Submitting, title: Annotated[str, Form(max_length=200)]) -> Response:
    """Create a record with a title alone, and show it. A form sent twice creates two."""
    plain = plain_request()
    if plain is None:
        raise CallError("no system here has records that a title alone creates")
    made = client.submit(plain.payload(title, "console"), machine=plain.machine)
    return RedirectResponse(f"/records/{path_of(made.id)}", 303)


@router.post("/act/cancel/{record_id:path}")
def cancel(record_id: str, client: Submitting, reason: Annotated[str, Form()] = "") -> Response:
    """Cancel a record, and show it."""
    client.cancel(record_id, reason=reason)
    return RedirectResponse(f"/records/{path_of(record_id)}", 303)


@router.post("/act/{verb}/{record_id:path}")
def change(
    record_id: str,
    verb: Literal["pause", "resume", "retry"],
    client: Operating,
    reason: Annotated[str, Form()] = "",
) -> Response:
    """Pause, resume or retry a record, and show it."""
    client.change(verb, record_id, reason=reason)
    return RedirectResponse(f"/records/{path_of(record_id)}", 303)


def _ends(client: Client) -> set[tuple[str, str]]:
    """Return the states in which a record has ended, each with its machine."""
    every = ((name, one) for name, each in client.machines.items() for one in each.stages)
    return {(name, str(one.state)) for name, one in every if isinstance(one, Terminal)}


def used_machines(request: Request) -> list[str]:
    """Return the machines that have records."""
    watch: FlowWatch = request.app.state.flow
    return [row.name for row in watch.look().machines if row.live or row.ended]


def _is_record(client: Client, text: str) -> bool:
    try:
        return client.show(text).machine in client.machines
    except (InvalidIdError, UnknownMachineError, UnknownRecordError):
        return False
