"""What a command of a system is given, and what it prints with.

    app = typer.Typer()

    @app.command()
    @guarded(actor="person")  # of `interlock`: adds --json, and --as with this default
    def drop(shell: Shell, id: Id, reason: Reason = "") -> None:
        "Drop a translation."
        shell.answer_record(shell.client().cancel(id, reason=reason))

    @app.command()
    @guarded  # adds --json alone: nothing changes
    def show(shell: Shell, id: Id) -> None:
        "Show a translation."
        record = shell.client().show(id, machine="translation")
        shell.answer(record.data, show=page.details)

`guarded` prints an expected error as one sentence, or as JSON.
"""

from __future__ import annotations

from interlock.workers.terminal.cards import sure_words
from interlock.workers.terminal.command import Id, Reason, Shell, Tagged

__all__ = [
    "Id",
    "Reason",
    "Shell",
    "Tagged",
    "sure_words",
]
