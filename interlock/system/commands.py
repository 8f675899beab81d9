"""What the commands of a system share: their options, their client, and what they print.

    app = typer.Typer()

    @app.command()
    @guarded  # of `interlock`: prints an error as one sentence
    def drop(id: Id, actor: Actor = "person", as_json: AsJson = False) -> None:
        "Drop a translation."
        dropped = client(actor).cancel(id)
        answer_record(dropped, as_json=as_json)

`answer` prints a value: as JSON, or as the page that `show=` makes of it. It is data of JSON, such
as `[asdict(row) for row in client().list(machine="translation")]`, or `record.data`.
"""

from __future__ import annotations

from interlock.workers.terminal import screen
from interlock.workers.terminal.answer import (
    Actor,
    AsJson,
    Id,
    Reason,
    Tagged,
    answer,
    answer_record,
    api_client,
    asked_answer,
    caller,
    client,
    confirm,
    echo_output,
    fail,
    grouped,
    listed,
)
from interlock.workers.terminal.cards import sure_words
from interlock.workers.terminal.screen import REASON_LENGTH_MAX, counts_text, program, short

__all__ = [
    "REASON_LENGTH_MAX",
    "Actor",
    "AsJson",
    "Id",
    "Reason",
    "Tagged",
    "answer",
    "answer_record",
    "api_client",
    "asked_answer",
    "caller",
    "client",
    "confirm",
    "counts_text",
    "echo_output",
    "fail",
    "grouped",
    "listed",
    "program",
    "screen",
    "short",
    "sure_words",
]
