"""The tools through which agents read records, and submit, cancel and decide where they may."""

from __future__ import annotations

import json
from dataclasses import asdict
from importlib import import_module
from typing import Annotated

from pydantic import Field

from interlock.kernel.shortened import shortened
from interlock.workers.access.roles import Act
from interlock.workers.client import Client
from interlock.workers.engine.card import Card
from interlock.workers.mcp.tool_call import Fields, Reach, ToolCall, Verbs, offered_tool
from interlock.workers.mcp.tool_server import OfferedTool
from interlock.workers.ops.description import describe, line_shown
from interlock.workers.producer_message import submit as submit_message
from interlock.workers.systems import plain_request, systems

Id = Annotated[str, Field(description="The id of a record.")]
Words = Annotated[str, Field(description="Words of the title.")]
OwedEffect = Annotated[str, Field(description="An effect owed or at work, as `inference`.")]
Prefix = Annotated[str, Field(description="The beginning of their ids.")]
Seconds = Annotated[
    int, Field(ge=0, le=10**9, description="So many seconds, or longer, in their state.")
]
Cursor = Annotated[str, Field(description="`next` of the page before.")]
Limit = Annotated[int, Field(ge=1, le=200)]
LINES_MAX = 200
QUESTION_MAX = 160  # letters of each question in a list: fifty cards fit the window of a model


def offered_tools(reach: Reach) -> list[OfferedTool]:
    """Return the tools. Each call is allowed or refused by `reach`."""
    found = [
        offered_tool(reach, Act.READ, list_records),
        offered_tool(reach, Act.READ, show_record),
        offered_tool(reach, Act.READ, why_not),
        offered_tool(reach, Act.READ, read_history),
        offered_tool(reach, Act.READ, list_cards),
        offered_tool(reach, Act.READ, show_cards),
        offered_tool(reach, Act.READ, count_records),
        offered_tool(reach, Act.SUBMIT, submit, example=_example()),
        offered_tool(reach, Act.SUBMIT, cancel, ends=True),
        offered_tool(reach, Act.DECIDE, decide, ends=True),
    ]
    for module in [import_module(one.tools) for one in systems() if one.tools]:
        found += [offered_tool(reach, Act.READ, function) for function in module.READS]
        found += [offered_tool(reach, Act.SUBMIT, function) for function in module.SUBMITS]
    return found


def _example() -> str:
    """Return an example that the description of `submit` ends with, or ''."""
    plain = plain_request()
    if plain is None:
        return ""
    return f" That of a {plain.machine} is {json.dumps(plain.payload('...', 'agent'))}."


def list_records(
    call: ToolCall,
    machine: str = "",
    state: str = "",
    effect: OwedEffect = "",
    parent: str = "",
    id_prefix: Prefix = "",
    text: Words = "",
    in_state_s: Seconds = 0,
    limit: Limit = 50,
    cursor: Cursor = "",
) -> Fields:
    """List records, the newest first: of one machine, in one state, below one parent."""
    client = call.client()
    page = client.page(
        machine=machine or None,
        state=state or None,
        effect=effect,
        parent=parent,
        id_prefix=id_prefix,
        text=text,
        since_ms=_since_ms(client, in_state_s),
        limit=limit,
        cursor=cursor,
    )
    return {"records": [asdict(row) for row in page.rows], "next": page.cursor}


def show_record(call: ToolCall, record_id: Id) -> Fields:
    """Show a record: its state, data, cards, children, failures and results."""
    client = call.client(record_id)
    cards = list(map(_short, client.cards_of(record_id)))
    if isinstance(client, Client):
        return describe(client, record_id) | {"cards": cards}
    return client.describe(record_id) | {"cards": cards}


def why_not(call: ToolCall, record_id: Id) -> list[Fields]:
    """Say for every trigger of a record what it would do now, or why it would not."""
    found = call.client(record_id).explain_all(record_id)
    return [asdict(each) for each in found]


def read_history(call: ToolCall, record_id: Id) -> list[Fields]:
    """Read the newest lines of a record's log, oldest first: what happened, who, and why."""
    lines = call.client(record_id).history(record_id)
    return [line_shown(line) for line in lines[-LINES_MAX:]]


def list_cards(
    call: ToolCall,
    tag: Annotated[str, Field(description="Tags that a card has, with commas between.")] = "",
    limit: Limit = 50,
    cursor: Cursor = "",
) -> Fields:
    """List the questions that wait for a person, the longest waiting first.

    `show_cards` shows those of one record whole: what is proposed, and the fields of an answer.
    """
    page = call.client().cards_page(limit=limit, cursor=cursor, tag=tag)
    return {"cards": list(map(_short, page.cards)), "next": page.cursor}


def show_cards(call: ToolCall, record_id: Id) -> list[Fields]:
    """Show the open cards of a record whole, with the schema of each answer."""
    cards = call.client(record_id).cards_of(record_id)
    return [card.as_data() for card in cards]


def count_records(
    call: ToolCall,
    machine: str = "",
    state: str = "",
    effect: OwedEffect = "",
    parent: str = "",
    id_prefix: Prefix = "",
    text: Words = "",
    in_state_s: Seconds = 0,
) -> Fields:
    """Count the records in each state, of those that `list_records` lists.

    `more`: with a parent, an id or a text at most 10,000 records are read, and there are more.
    """
    client = call.client()
    found = client.counts(
        machine=machine or None,
        state=state or None,
        effect=effect,
        parent=parent,
        id_prefix=id_prefix,
        text=text,
        since_ms=_since_ms(client, in_state_s),
    )
    return asdict(found)


def submit(
    call: ToolCall,
    machine: Annotated[str, Field(description="One of those that `count_records` counts.")],
    record_id: Annotated[
        str, Field(description="A new id of your own: a repeated call creates nothing more.")
    ],
    payload: Fields,
) -> Fields:
    """Create a record, which starts its work. Its payload is that of its machine."""
    client = call.client()
    if isinstance(client, Client):
        fields = {"id": record_id, "machine": machine, "payload": payload}
        found = submit_message(client, fields)
        return {"id": found["record"], "replayed": found["answer"] == "known"}
    done = client.submit(payload, id=record_id, machine=machine)
    return {"id": done.id, "replayed": done.replayed}


def cancel(call: ToolCall, record_id: Id, reason: str) -> Fields:
    """End a record, or ask its running action to stop."""
    after = call.client(record_id).cancel(record_id, reason=reason)
    return {"id": after.id, "state": after.state}


def decide(
    call: ToolCall,
    record_id: Id,
    choice: Annotated[str, Field(description="One of the card's affordances.")],
    proposal: Annotated[str, Field(description="That of the card, which says what was seen.")],
    answer: Fields | None = None,
) -> Fields:
    """Answer a card in the name of the person whose token you have. Ask that person first."""
    client = call.client(record_id)
    after = client.decide(record_id, choice, answer, proposal=proposal)
    return {"id": after.id, "state": after.state}


def _short(card: Card) -> Fields:
    """Return what an agent needs of a card to choose among many."""
    return {
        "record_id": card.record_id,
        "question": shortened(card.question, QUESTION_MAX),
        "choices": ", ".join(each.name for each in card.affordances),
        "proposal": card.proposal,
    }


def _since_ms(client: Verbs, seconds: int) -> tuple[int, int] | None:
    """Return from when to when (ms) a record entered its state, if it is in it for so long."""
    return (0, client.now_ms() - seconds * 1_000) if seconds else None
