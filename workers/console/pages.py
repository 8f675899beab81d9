"""The pages that show records: whether work flows, lists of records, and one record."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, get_args
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Query, Request, Response
from fastapi.responses import RedirectResponse

from interlock.kernel.errors import InvalidIdError, UnknownMachineError, UnknownRecordError
from interlock.kernel.table import Terminal
from interlock.workers.access.roles import Act
from interlock.workers.api.models import BulkVerb
from interlock.workers.api.records import verbs
from interlock.workers.client import Client
from interlock.workers.console.flow import Flow, FlowWatch
from interlock.workers.console.operate import FILE_MAX
from interlock.workers.console.render import PageRoute, page, path_of
from interlock.workers.console.search import conditions
from interlock.workers.console.series import Samples, series
from interlock.workers.console.sessions import Operating, Reading, Submitting
from interlock.workers.console.system_pages import panels_of
from interlock.workers.engine.card import QUARANTINE
from interlock.workers.ops.description import line_shown, summarize

router = APIRouter(route_class=PageRoute, include_in_schema=False)

ROWS = 50
LINES = 200
CHILDREN = 100
Text = Annotated[str, Query(max_length=500)]


@router.get("/")
def flow(request: Request, client: Reading) -> Response:
    """Show whether work flows."""
    watch: FlowWatch = request.app.state.flow
    samples: Samples = request.app.state.samples
    found = watch.look()
    overdue_ms = found.now_ms - found.oldest_ms.get("effects", found.now_ms)
    sees_all = not request.state.viewer.machines
    asked = sum(found.questions.of_machine(name) for name in client.machines)
    return page(
        request,
        "flow.html",
        flow=found,
        machines=[row for row in found.machines if row.name in client.machines],
        series={name: series(samples.kept, name) for name in client.machines},
        troubles=list(_troubles(found, client)),
        overdue_ms=max(overdue_ms, 0),
        waits=found.depths["waits"] if sees_all else asked,
        longest_ms=found.oldest_ms.get("waits") if sees_all else None,
    )


def _troubles(found: Flow, client: Client) -> Iterator[tuple[str, str, str]]:
    """Yield what a person has to act on: a sentence, and a link with its text, or ''."""
    yield from ((problem, "", "") for problem in found.problems)
    if given_up := found.questions.of_kind(QUARANTINE, client.machines):
        effects = "1 record has an effect" if given_up == 1 else f"{given_up} records have effects"
        sentence = (
            f"{effects} that failed too often and was given up: repair the cause, then retry."
        )
        yield sentence, f"/inbox?kind={QUARANTINE}", "See what failed"
    if found.rejected:
        messages = "1 message is" if found.rejected == 1 else f"{found.rejected} messages are"
        sentence = (
            f"{messages} kept that no worker can act on: `interlock rejected list` shows why,"
            " `interlock rejected replay` or `drop` ends it."
        )
        yield sentence, "", ""


@router.get("/fleet")
def fleet(request: Request, client: Reading) -> Response:
    """Show how many records are in each state, and how long they stay there."""
    watch: FlowWatch = request.app.state.flow
    states = {name: rows for name, rows in watch.look().states.items() if name in client.machines}
    return page(request, "fleet.html", states=states)


@router.get("/records")
def records(
    request: Request,
    client: Reading,
    q: Text = "",
    order: Literal["newest", "oldest"] = "newest",
    cursor: Text = "",
) -> Response:
    """List the records that are searched for. An id leads to its record."""
    if q and _is_record(client, q.strip()):
        return RedirectResponse(f"/records/{path_of(q.strip())}", 303)
    now_ms = client.dispatch.views.now_ms()
    wanted = conditions(q, now_ms)
    found = client.page(limit=ROWS, cursor=cursor, newest=order == "newest", **wanted)
    query = urlencode({"q": q, "order": order})
    following = f"/records?{query}&{urlencode({'cursor': found.cursor})}" if found.cursor else ""
    return page(
        request,
        "records.html",
        rows=found.rows,
        q=q,
        order=order,
        now_ms=now_ms,
        following=following,
        machines=list(client.machines),
        verbs=get_args(BulkVerb),
        views=client.dispatch.saved_views.all(),
        path=f"/records?{query}",
        query=query,
        file_max=FILE_MAX,
    )


@router.get("/records/{record_id:path}")
def record(request: Request, record_id: str, client: Reading) -> Response:
    """Show a record: where it is, what may happen next, and its log."""
    found = summarize(client, record_id)
    views, machine = client.dispatch.views, client.machines[found["machine"]]
    legal = set(machine.legal(found["state"]))
    explained = client.explain_all(record_id)
    lines = [line_shown(line) for line in views.latest([record_id], LINES)[record_id]]
    every_child = views.records(found["children"][:CHILDREN]).values()
    ended = isinstance(machine.stage(found["state"]), Terminal)
    return page(
        request,
        "record.html",
        record=found,
        now_ms=views.now_ms(),
        following=[one for one in explained if one.trigger in legal],
        lines=lines,
        children=[child for child in every_child if child.machine in client.machines],
        verbs=list(_verbs_of(found, ended=ended, acts=request.state.viewer.acts)),
        **panels_of(client, client.show(record_id), request.state.viewer.acts),
    )


@router.post("/threads")
def new_thread(client: Submitting, title: Annotated[str, Form(max_length=200)]) -> Response:
    """Create a thread with a title, and show it. A form sent twice creates two."""
    request = {"inciting": {"source": "console", "title": title, "text": ""}}
    made = client.submit(request, machine="thread")
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
    verbs(client)[verb](record_id, reason)
    return RedirectResponse(f"/records/{path_of(record_id)}", 303)


def _verbs_of(found: dict[str, Any], *, ended: bool, acts: frozenset[Act]) -> Iterator[str]:
    """Yield what the viewer may do to a record now, apart from answering its cards."""
    if Act.OPERATE in acts and not ended:
        yield "resume" if found["paused"] else "pause"
    if Act.OPERATE in acts and found["failures"]:
        yield "retry"
    if Act.SUBMIT in acts and not ended:
        yield "cancel"


def _is_record(client: Client, text: str) -> bool:
    try:
        return client.show(text).machine in client.machines
    except (InvalidIdError, UnknownMachineError, UnknownRecordError):
        return False
