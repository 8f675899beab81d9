"""The addresses of records: create, list, show, change and explain them, and read their logs."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Collection
from itertools import islice
from typing import Annotated, Any, Literal, get_args

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from sse_starlette import ServerSentEvent
from starlette.convertors import StringConvertor, register_url_convertor

from interlock.kernel.errors import KernelError, StaleDecisionError
from interlock.kernel.event import START
from interlock.kernel.store.counts import RecordCounts
from interlock.kernel.store.inboxes import Mail
from interlock.kernel.store.views import Views
from interlock.workers.api.access import (
    Deciding,
    IfMatch,
    Key,
    NewId,
    Operating,
    Reading,
    Submitting,
    check_version,
    etag,
)
from interlock.workers.api.event_stream import EventStream
from interlock.workers.api.followers import Followers, Found
from interlock.workers.api.models import (
    Bulk,
    CreatedBody,
    DecisionBody,
    Explained,
    Fields,
    Firing,
    Item,
    Items,
    Lines,
    NewRecord,
    NewRecords,
    RecordBody,
    RecordList,
    Why,
    explained,
    record_body,
)
from interlock.workers.api.problems import PROBLEMS, RefusedRequestError, refusal_data
from interlock.workers.engine.bulk import BulkItem, check_bounded, unchanged
from interlock.workers.engine.record_filter import Wanted
from interlock.workers.ops.description import describe, line_shown
from interlock.workers.producer_message import submit
from interlock.workers.remote.problems import STALE

log = logging.getLogger(__name__)
router = APIRouter(prefix="/v1", tags=["records"], responses=PROBLEMS)

POSITION = "[0-9]{1,15}-[0-9]{1,15}"  # of a line in a log
LINES_MAX = 1_000
LINES_AT_ONCE = 50  # of one log, that are read for its listeners
TEXT_MAX = 200
Id = Annotated[str, Path(description="The id of a record, with its slashes as they are.")]
Limit = Annotated[int, Query(ge=1, le=500)]
Ms = Annotated[int | None, Query(ge=0, le=2**53)]
Change = Literal["pause", "resume", "retry"]


class _ChangeInPath(StringConvertor):
    """A change as the last part of an address, so that no other word is taken for one."""

    regex = "|".join(get_args(Change))


register_url_convertor("change", _ChangeInPath())


@router.post(
    "/records",
    operation_id="createRecord",
    status_code=201,
    response_model=CreatedBody,
    responses={200: {"model": CreatedBody, "description": "The same call was accepted before."}},
)
def create(new: NewRecord, client: Submitting, key: NewId) -> Response:
    """Create a record, whose id is the Idempotency-Key. A repeated call is answered with 200."""
    found = submit(client, {"id": key, **new.model_dump()})
    known = found["answer"] == "known"
    body = CreatedBody(id=found["record"], replayed=known).model_dump_json()
    # A whole answer: FastAPI would change threads once more to make one of the model.
    return Response(
        body,
        200 if known else 201,
        {"Location": f"/v1/records/{found['record']}"},
        media_type="application/json",
    )


@router.post("/records:batch", operation_id="createRecords")
def create_many(new: NewRecords, client: Submitting, request: Request) -> Items:
    """Create records, each by itself: a refused one does not stop the others."""
    request.app.state.rates.count(client.actor, len(new.records) - 1)  # the call counts as one
    items = []
    for each in new.records:
        try:
            found = submit(client, each.model_dump())
        except KernelError as refusal:
            items.append(Item(id=each.id, problem=refusal_data(refusal)))
        else:
            items.append(Item(id=found["record"], answer=found["answer"]))
    return Items(items=items)


@router.post("/records:bulk", operation_id="changeRecords")
def change_many(bulk: Bulk, client: Operating, request: Request) -> Items:
    """Cancel, pause, resume or retry each record of one page of a list, or say what that would do.

    A call without any condition is refused: it would be about every record.
    """
    wanted: Wanted = {
        "machine": bulk.machine,
        "state": bulk.state,
        "effect": bulk.effect,
        "parent": bulk.parent,
        "id_prefix": bulk.id,
        "text": bulk.text,
        "created_ms": _within(bulk.created_from_ms, bulk.created_to_ms),
        "since_ms": _within(bulk.since_from_ms, bulk.since_to_ms),
    }
    check_bounded(wanted)
    page = client.page(**wanted, limit=bulk.limit, cursor=bulk.cursor, newest=False)
    request.app.state.rates.count(client.actor, len(page.rows) - 1)  # the call counts as one
    done = client.bulk(bulk.verb).each(page.ids, reason=bulk.reason, dry_run=bulk.dry_run)
    return Items(items=list(map(item_body, done)), next=page.cursor)


async def conditions(
    machine: str | None = None,
    state: str | None = None,
    effect: Annotated[str, Query(description="The effect that is owed or at work.")] = "",
    text: Annotated[
        str,
        Query(max_length=TEXT_MAX, description="Words of the title; the last may be cut short."),
    ] = "",
    id_prefix: Annotated[str, Query(alias="id", description="The beginning of the id.")] = "",
    parent: str = "",
    created_from_ms: Ms = None,
    created_to_ms: Ms = None,
    since_from_ms: Ms = None,
    since_to_ms: Ms = None,
) -> Wanted:
    """Return the conditions that a query names. A coroutine: others would need a thread."""
    return {
        "machine": machine,
        "state": state,
        "effect": effect,
        "text": text,
        "id_prefix": id_prefix,
        "parent": parent,
        "created_ms": _within(created_from_ms, created_to_ms),
        "since_ms": _within(since_from_ms, since_to_ms),
    }


Conditions = Annotated[Wanted, Depends(conditions)]


@router.get("/records", operation_id="listRecords")
def list_records(
    client: Reading,
    wanted: Conditions,
    order: Annotated[
        Literal["newest", "oldest", "longest", "latest"],
        Query(description="By creation; by the time in the state: `longest` first, or `latest`."),
    ] = "newest",
    limit: Limit = 100,
    cursor: str = "",
) -> RecordList:
    """List records: by creation, with a state by its entry, with a text, id or parent by name."""
    page = client.page(
        **wanted,
        limit=limit,
        cursor=cursor,
        newest=order in ("newest", "latest"),
        by_state=order in ("longest", "latest"),
    )
    return RecordList(records=list(page.rows), next=page.cursor)


@router.get("/counts", operation_id="countRecords")
def counts(client: Reading, wanted: Conditions) -> RecordCounts:
    """Count the records that a list with these conditions has, in each state that has any.

    By `machine`, `state`, `effect` and times in the state all are counted. With other conditions at
    most 10,000 records are read; `more` says that there are more.
    """
    return client.counts(**wanted)


@router.get("/records/{record_id:path}:history", operation_id="readHistory")
def history(
    record_id: Id,
    client: Reading,
    after: Annotated[
        str,
        Query(pattern=f"^{POSITION}$", description="A position: `next` of the page before."),
    ] = START,
    limit: Annotated[int, Query(ge=1, le=LINES_MAX)] = 200,
) -> Lines:
    """Read the log of a record after a position: its events, and the notes that follow each."""
    client.show(record_id)
    found = list(islice(client.dispatch.views.log(record_id, after=after), limit + 1))
    following = found[limit - 1].position if len(found) > limit else ""
    return Lines(lines=[line_shown(line) for line in found[:limit]], next=following)


@router.get(
    "/records/{record_id:path}:events",
    operation_id="followRecord",
    response_class=EventStream,
    status_code=200,
)
async def follow(
    request: Request,
    record_id: Id,
    client: Reading,
    last_event_id: Annotated[
        str, Header(alias="Last-Event-ID", pattern=f"^{POSITION}$", max_length=40)
    ] = START,
) -> EventStream:
    """Follow the log of a record: server-sent events, whose ids are positions in the log.

    A listener that comes again with the last id that it got goes on after it.
    """
    followers: Followers = request.app.state.followers
    await run_in_threadpool(client.show, record_id)
    place = (record_id, last_event_id)
    listener = followers.listener(request.app.state.read_logs, place, request.state.caller)

    async def server_sent() -> AsyncIterator[ServerSentEvent]:
        async for position, line in followers.messages(listener):
            data = line_shown(line)
            yield ServerSentEvent(json.dumps(data), event=data["line"], id=position)

    return EventStream(server_sent(), request.state.caller)


@router.get("/records/{record_id:path}:description", operation_id="describeRecord")
def description(record_id: Id, client: Reading) -> Fields:
    """Describe a record: with its cards, children, failures and results, as `interlock show`."""
    return describe(client, record_id)


@router.get("/records/{record_id:path}:mail", operation_id="readMail")
def mail_of(
    record_id: Id, client: Reading, limit: Annotated[int, Query(ge=1, le=LINES_MAX)] = 100
) -> list[Mail]:
    """Return the newest mail of a record, the newest first. Records of a family share an inbox."""
    return client.mail(record_id, limit=limit)


@router.post("/records/{record_id:path}:explain", operation_id="explainTrigger")
def explain(record_id: Id, asked: Firing, client: Reading) -> Explained:
    """Say what a trigger, or an answer to the card, would do now, or why not. Changes nothing."""
    return explained(client.explain(record_id, asked.trigger, asked.payload))


@router.get("/records/{record_id:path}:why-not", operation_id="explainAllTriggers")
def why_not(record_id: Id, client: Reading) -> list[Explained]:
    """Say for each trigger of a record's machine what it would do now, or why it would not."""
    return [explained(found) for found in client.explain_all(record_id)]


@router.post("/records/{record_id:path}:fire", operation_id="fireTrigger")
def fire(
    record_id: Id,
    firing: Firing,
    client: Operating,
    response: Response,
    key: Key = None,
    if_match: IfMatch = None,
) -> RecordBody:
    """Fire a trigger at a record. With If-Match it is refused if the record has changed."""
    entered = firing.entered
    if if_match is not None and not client.was_made(record_id, key):
        record = client.show(record_id)
        check_version(client, record, if_match)
        entered = entered or record.entered
    after = client.fire_by_hand(
        record_id, firing.trigger, firing.payload, op_id=key, reason=firing.reason, version=entered
    )
    response.headers["ETag"] = etag(after.version)
    return record_body(client, after)


@router.post("/records/{record_id:path}:decide", operation_id="decideCard")
def decide(
    record_id: Id,
    decision: DecisionBody,
    client: Deciding,
    response: Response,
    key: Key = None,
    if_match: IfMatch = None,
) -> RecordBody:
    """Answer a card. If-Match says which version of the record the answer is about."""
    record = client.show(record_id)
    if not client.was_made(record_id, key):
        check_version(client, record, if_match)
    try:
        after = client.decide(
            record_id, decision.choice, decision.answer, proposal=decision.proposal, op_id=key
        )
    except StaleDecisionError as refusal:
        current = record_body(client, client.show(record_id)).model_dump(mode="json")
        raise RefusedRequestError(STALE, str(refusal), current=current) from refusal
    response.headers["ETag"] = etag(after.version)
    return record_body(client, after)


@router.post("/records/{record_id:path}:cancel", operation_id="cancelRecord")
def cancel(
    record_id: Id,
    why: Why,
    client: Submitting,
    response: Response,
    key: Key = None,
    if_match: IfMatch = None,
) -> RecordBody:
    """End a record, or ask its running action to stop. The state that it has then is returned."""
    if if_match is not None and not client.was_made(record_id, key):
        check_version(client, client.show(record_id), if_match)
    after = client.cancel(record_id, reason=why.reason, op_id=key)
    response.headers["ETag"] = etag(after.version)
    return record_body(client, after)


@router.post("/records/{record_id:path}:{verb:change}", operation_id="changeRecord")
def change(
    record_id: Id,
    verb: Change,
    why: Why,
    client: Operating,
    if_match: IfMatch = None,
) -> Item:
    """Pause, resume or retry a record. `answer` says what was done."""
    if if_match is not None:
        check_version(client, client.show(record_id), if_match)
    answer = client.change(verb, record_id, reason=why.reason)
    return Item(id=record_id, answer=answer, why_not=unchanged(verb, answer))


@router.get("/records/{record_id:path}", operation_id="showRecord")
def show(record_id: Id, client: Reading, response: Response) -> RecordBody:
    """Return a record as it is now, with its version as ETag."""
    record = client.show(record_id)
    response.headers["ETag"] = etag(record.version)
    return record_body(client, record)


def read_logs(views: Views, places: Collection[tuple[str, str]]) -> dict[Any, Found | None]:
    """Read what follows a position in each of several logs, for their listeners."""
    found: dict[Any, Found | None] = {}
    for (record_id, position), lines in views.lines_after(places, LINES_AT_ONCE).items():
        if lines is None:
            log.error("the log of %s cannot be read after %s", record_id, position)
            found[record_id, position] = None
            continue
        last = lines[-1][0] if lines else position
        more = len(lines) == LINES_AT_ONCE
        found[record_id, position] = Found(lines, (record_id, last), more)
    return found


def item_body(item: BulkItem) -> Item:
    """Return what was done to one record of several as an answer has it."""
    problem = refusal_data(item.error) if item.error else None
    return Item(id=item.id, answer=item.answer, why_not=item.why_not, problem=problem)


def _within(first: int | None, last: int | None) -> tuple[int, int] | None:
    if first is None and last is None:
        return None
    return first or 0, 2**53 if last is None else last
