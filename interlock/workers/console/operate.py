"""The pages of operators beside records: saved views, lists as files, acts, access tokens."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from typing import Annotated, Literal

from fastapi import APIRouter, Form, Query, Request, Response
from fastapi.responses import RedirectResponse

from interlock.kernel.errors import CallError
from interlock.kernel.store.listings import PAGE_MAX, ListedRecord
from interlock.kernel.store.people import SavedView
from interlock.workers.access.roles import Role
from interlock.workers.access.tokens import NAME_LENGTH_MAX, make_token
from interlock.workers.client import Client
from interlock.workers.console.entrance import own_path
from interlock.workers.console.render import HEADERS, PageRoute, page
from interlock.workers.console.search import COLUMNS, Columns, conditions
from interlock.workers.console.sessions import Administering, Operating, Reading

router = APIRouter(route_class=PageRoute, include_in_schema=False)

FILE_MAX = 5_000
NAME_MAX = 60
ACTS = 100
DAYS = 90
Order = Literal["newest", "oldest"]
# A spreadsheet takes a cell that begins with one of these for a formula, and runs it.
FORMULA = ("=", "+", "-", "@", "\t", "\r")


@router.post("/views")
def save(client: Operating, name: Annotated[str, Form()], path: Annotated[str, Form()]) -> Response:
    """Give the address of a page a name, for all who use this deployment."""
    name = " ".join(name.split())
    if not name or len(name) > NAME_MAX or not name.isprintable():
        raise CallError(f"a view's name has 1 to {NAME_MAX} letters, not {len(name)}")
    client.dispatch.saved_views.keep(SavedView(name, own_path(path), client.actor))
    return RedirectResponse(own_path(path), 303)


@router.post("/views/drop")
def drop(client: Operating, name: Annotated[str, Form()]) -> Response:
    """Drop a saved view."""
    client.dispatch.saved_views.drop(name)
    return RedirectResponse("/records", 303)


@router.get("/records.{form}")
def as_file(
    client: Reading,
    form: Literal["csv", "json"],
    q: Annotated[str, Query(max_length=500)] = "",
    order: Order = "newest",
    columns: Columns = [],  # noqa: B006 - FastAPI copies it
) -> Response:
    """Return the records that a search finds as a file; at most FILE_MAX of them.

    It has their ids and titles, and the columns that are chosen: all where none is.
    """
    rows = list(_found(client, q, newest=order == "newest"))
    is_cut = len(rows) > FILE_MAX
    chosen = {field for each in columns or COLUMNS for field in COLUMNS[each]} | {"id", "title"}
    fields = [name for name in ListedRecord.__dataclass_fields__ if name in chosen]
    found = [{name: getattr(row, name) for name in fields} for row in rows[:FILE_MAX]]
    if form == "json":
        text = json.dumps({"records": found, "is_cut": is_cut}, ensure_ascii=False)
    else:
        lines = io.StringIO()
        writer = csv.writer(lines)
        writer.writerow(fields)
        writer.writerows([_cell(value) for value in row.values()] for row in found)
        text = lines.getvalue()
    headers = HEADERS | {"Content-Disposition": f'attachment; filename="records.{form}"'}
    kind = "application/json" if form == "json" else "text/csv"
    return Response(text, 200, headers, f"{kind}; charset=utf-8")


@router.get("/acts")
def acts(
    request: Request,
    client: Reading,
    before: Annotated[str, Query(pattern=r"^([0-9]{1,15}-[0-9]{1,10})?$")] = "",
    by: Annotated[str, Query(max_length=NAME_LENGTH_MAX)] = "",
) -> Response:
    """Show what people did last, or one of them, to records of machines that the viewer may see."""
    views, by = client.dispatch.views, by.strip()
    found = client.dispatch.acts.latest(ACTS, before=before, by=by)
    ids = [act.record_id for act in found]
    records = views.records(ids, readable_by=client.dispatch.machines)
    titles = {one.id: one.title for one in records.values() if one.machine in client.machines}
    sees_all = not request.state.caller.machines
    return page(
        request,
        "acts.html",
        rows=[
            (act, titles.get(act.record_id))
            for act in found
            if act.record_id in titles or (sees_all and act.record_id not in records)
        ],
        by=by,
        following=found[-1].position if len(found) == ACTS else "",
        now_ms=views.now_ms(),
    )


@router.get("/tokens")
def tokens(request: Request, client: Administering) -> Response:
    """List the access tokens."""
    return _tokens(request, client)


@router.post("/tokens")
def create(
    request: Request,
    client: Administering,
    holder: Annotated[str, Form()],
    roles: Annotated[list[str], Form()] = [],  # noqa: B006 - FastAPI copies it
    machines: Annotated[list[str], Form()] = [],  # noqa: B006
    days: Annotated[int, Form()] = DAYS,
) -> Response:
    """Make an access token, and show its text: this page is the only one that has it."""
    text, _ = make_token(
        client.dispatch.access_tokens,
        holder,
        roles=roles,
        machines=machines,
        known_machines=client.machines,
        days=days,
        made_by=client.actor,
    )
    return _tokens(request, client, made=text)


@router.post("/tokens/revoke")
def revoke(client: Administering, token_id: Annotated[str, Form()]) -> Response:
    """Revoke an access token for good."""
    client.dispatch.access_tokens.revoke(token_id, client.actor)
    return RedirectResponse("/tokens", 303)


def _tokens(request: Request, client: Client, made: str = "") -> Response:
    found = client.dispatch.access_tokens.all()
    now_ms = client.dispatch.views.now_ms()
    is_valid = [
        not each.revoked_ms and (not each.expires_ms or each.expires_ms > now_ms) for each in found
    ]
    return page(
        request,
        "tokens.html",
        valid=[each for each, ok in zip(found, is_valid, strict=True) if ok][::-1],
        ended=[each for each, ok in zip(found, is_valid, strict=True) if not ok][::-1],
        made=made,
        roles=list(Role),
        machines=list(client.machines),
        days=DAYS,
        now_ms=now_ms,
    )


def _found(client: Client, q: str, *, newest: bool) -> Iterator[ListedRecord]:
    """Yield the records that a search finds, at most one page more than FILE_MAX."""
    wanted = conditions(q, client.dispatch.views.now_ms(), client.machines)
    cursor, count, goes_on = "", 0, True
    while goes_on and count <= FILE_MAX:
        found = client.page(limit=PAGE_MAX, cursor=cursor, newest=newest, **wanted)
        yield from found.rows
        count, cursor = count + len(found.rows), found.cursor
        goes_on = bool(cursor)


def _cell(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value
