"""The commands for the cards of all machines: `cards` lists the questions, `decide` answers one."""

from __future__ import annotations

from typing import Annotated

import typer

from interlock.workers.engine.answer_commands import PLACEHOLDER, text_field, unfilled
from interlock.workers.terminal.cards import cards as show_cards
from interlock.workers.terminal.command import Id, Shell, guarded

COUNTED_MAX = 1_000  # cards that are read to say how many there are


@guarded
def cards(
    shell: Shell,
    tag: Annotated[
        list[str] | None, typer.Option(help="Only cards with this tag; repeat it for several.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="The most to show.")] = 100,
) -> None:
    """List the cards, the questions that wait for a person; the longest waiting comes first."""
    connected, tags = shell.caller(), ",".join(tag or ())
    found = [card.as_data() for card in connected.cards(limit=limit + 1, tag=tags)]

    def total() -> str:
        counted = len(connected.cards(limit=COUNTED_MAX + 1, tag=tags))
        return f"{counted:,}" if counted <= COUNTED_MAX else f"more than {COUNTED_MAX:,}"

    rows = shell.first(found, limit, "the longest waiting first", total=total)
    shell.answer(rows, show=show_cards)


@guarded(actor="person")
def decide(
    shell: Shell,
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
) -> None:
    """Answer a card."""
    fields = shell.json_object(fields_json, "--answer")
    connected = shell.caller()
    if text:
        fields[text_field(choice)] = text
    seen, given = shell.asked_answer(connected, record_id, choice, fields, proposal)
    if unfilled(given):
        sentence = f"replace {PLACEHOLDER} by your answer"
        shell.fail(sentence)
    record = connected.decide(record_id, choice, given, proposal=seen)
    shell.answer_record(record, outlook=connected.outlook(record))
