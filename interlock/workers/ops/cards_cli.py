"""The commands for the cards of all machines: `cards` lists the questions, `decide` answers one."""

from __future__ import annotations

from typing import Annotated

import typer

from interlock.workers.engine.answer_commands import PLACEHOLDER, text_field, unfilled
from interlock.workers.terminal.answer import (
    Actor,
    AsJson,
    Id,
    answer,
    answer_record,
    asked_answer,
    caller,
    fail,
    guarded,
    json_object,
    listed,
)
from interlock.workers.terminal.cards import cards as show_cards

COUNTED_MAX = 1_000  # cards that are read to say how many there are


@guarded
def cards(
    tag: Annotated[
        list[str] | None, typer.Option(help="Only cards with this tag; repeat it for several.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="The most to show.")] = 100,
    as_json: AsJson = False,
) -> None:
    """List the cards, the questions that wait for a person; the longest waiting comes first."""
    connected, tags = caller(), ",".join(tag or ())
    found = [card.as_data() for card in connected.cards(limit=limit + 1, tag=tags)]

    def total() -> str:
        counted = len(connected.cards(limit=COUNTED_MAX + 1, tag=tags))
        return f"{counted:,}" if counted <= COUNTED_MAX else f"more than {COUNTED_MAX:,}"

    rows = listed(found, limit, "the longest waiting first", total=total)
    answer(rows, as_json=as_json, show=show_cards)


@guarded
def decide(
    record_id: Id,
    choice: Annotated[str, typer.Argument(help="One of the card's choices, such as approve.")],
    fields_json: Annotated[
        str, typer.Option("--answer", help="The fields of the answer, as a JSON object.")
    ] = "{}",
    text: Annotated[
        str,
        typer.Option(
            "--text",
            "--reason",
            help="The main text of the answer, such as its reason; short for --answer.",
        ),
    ] = "",
    proposal: Annotated[
        str | None,
        typer.Option(
            help="The proposal that you saw. The answer is refused if another one is shown now."
        ),
    ] = None,
    as_json: AsJson = False,
    actor: Actor = "person",
) -> None:
    """Answer a card."""
    fields = json_object(fields_json, "--answer", as_json=as_json)
    connected = caller(actor)
    if text:
        fields[text_field(choice)] = text
    seen, given = asked_answer(connected, record_id, choice, fields, proposal, as_json=as_json)
    if unfilled(given):
        sentence = f"replace {PLACEHOLDER} by your answer"
        fail(sentence, as_json=as_json, kind="UsageError")
    record = connected.decide(record_id, choice, given, proposal=seen)
    answer_record(record, as_json=as_json, outlook=connected.outlook(record))
