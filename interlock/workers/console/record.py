"""The page of a record, of any machine, and the stream of server-sent events that renews it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from sse_starlette import ServerSentEvent

from interlock.kernel.event import START, Event, Note
from interlock.kernel.shown_stage import shown_stage
from interlock.kernel.store.codec import reading
from interlock.kernel.table import Terminal
from interlock.workers.api.event_stream import EventStream
from interlock.workers.api.followers import Followers
from interlock.workers.api.records import POSITION
from interlock.workers.console.diagram import Diagram, diagram_of
from interlock.workers.console.line_sentences import line_sentences
from interlock.workers.console.live import RENEWS, looked_up
from interlock.workers.console.plain_words import asked as asked_in_words
from interlock.workers.console.record_look import (
    look_at,
    not_here,
    signs,
    steps_of,
    verbs_of,
)
from interlock.workers.console.render import PageRoute, page
from interlock.workers.console.sessions import Reading
from interlock.workers.console.system_pages import panels_of
from interlock.workers.console.timeline import KINDS, Way, log_steps, timeline, trace_of, way_of
from interlock.workers.engine.card import tags_of
from interlock.workers.ops.story import asked, outcome, unsaid
from interlock.workers.text import duration

router = APIRouter(route_class=PageRoute, include_in_schema=False)

LINES, LINES_MAX = 200, 1_000
Kind = Literal["", "moves", "costs", "failures", "notes", "leases"]
Position = Annotated[str, Query(pattern=f"^{POSITION}$")]


@router.get("/follow/{record_id:path}")
async def follow(
    request: Request,
    record_id: str,
    client: Reading,
    after: Position = START,
    last_event_id: Annotated[str, Header(alias="Last-Event-ID", pattern=f"^({POSITION})?$")] = "",
) -> EventStream:
    """Send an event for each new line in the log of a record, with its position only."""
    followers: Followers = request.app.state.followers
    await run_in_threadpool(client.show, record_id)
    place = (record_id, last_event_id or after)
    listener = followers.listener(request.app.state.read_logs, place, request.state.caller)

    async def server_sent() -> AsyncIterator[ServerSentEvent]:
        async for position, _ in followers.messages(listener):
            yield ServerSentEvent(position, event="changed", id=position)

    return EventStream(server_sent(), request.state.caller)


@router.get("/records/{record_id:path}")
def record(
    request: Request,
    record_id: str,
    client: Reading,
    kind: Kind = "",
    lines: Annotated[int, Query(ge=1, le=LINES_MAX)] = LINES,
    diagram: Literal["", "wide"] = "",
) -> Response:
    """Show a record: where it is and why, what may happen next, its log, family and diagram."""
    with reading(record_id):
        seen = looked_up(request, client, lambda: look_at(client, record_id, lines))
        found = seen.described
        machine = client.dispatch.machines[found["machine"]]
        by = client.actor if signs(machine) else ""
        explained = looked_up(
            request, client, lambda: client.explain_all(record_id), what="explained", by=by
        )
    acts = request.state.caller.acts
    panels = looked_up(
        request,
        client,
        lambda: panels_of(client, seen.record, acts),
        what="panels",
        by=" ".join(sorted(acts)),
    )
    stories = looked_up(
        request, client, lambda: [*asked(seen.record), outcome(client, seen.record)], what="story"
    )
    way = way_of(seen.lines, seen.now_ms)
    drawn = diagram_of(machine)
    sentences = line_sentences(client, machine, seen.lines)
    folded = {position for position, each in sentences.items() if not each.title}
    return page(
        request,
        "record_now.html" if RENEWS in request.headers else "record.html",
        seen=seen,
        record=found,
        is_listed=found["machine"] in client.machines,
        questions=[asked_in_words(card) for card in client.open_cards.of([seen.record])],
        tags=tags_of(machine, seen.record),
        now_ms=seen.now_ms,
        position=_position(seen.lines),
        trace=trace_of(seen.lines),
        next_steps=steps_of(machine, found["state"], explained),
        not_here=not_here(machine, found["state"]),
        steps=log_steps(timeline(seen.lines), folded, kind),
        sentences=sentences,
        effects=machine.effects,
        story=stories,
        has_ended=isinstance(shown_stage(machine, found["state"]), Terminal),
        details=unsaid(found["details"] or {}, seen.record),
        lines_max=LINES_MAX if len(seen.lines) == lines < LINES_MAX else 0,
        is_cut=len(seen.lines) == lines,
        kind=kind,
        asked_lines=lines,
        kinds=KINDS,
        drawn=drawn,
        diagram_size=diagram,
        marks=_marks(drawn, way, found["state"]),
        verbs=list(verbs_of(found, machine, acts)),
        **panels,
    )


def _position(lines: Any) -> str:
    """Return the position of the newest line, after which a follower reads."""
    newest: Event | Note | None = next(iter(lines), None)
    return newest.position if newest else START


def _marks(drawn: Diagram, way: Way, state: str) -> dict[str, Any]:
    """Return what a diagram says of its states and arrows: the path that a record took."""
    nodes = {
        node.state: {
            "name": "here" if node.state == state else "passed",
            "text": f"{_times(way.visits[node.state])}, "
            f"{duration(way.stayed_ms[node.state])} in all",
        }
        for node in drawn.nodes
        if node.state == state or way.visits[node.state]
    }
    arrows = {
        step: {"text": _times(number), "width": 2} for step, number in way.steps.items() if number
    }
    return {"nodes": nodes, "arrows": arrows}


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"
