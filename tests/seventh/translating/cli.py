"""The commands of translations."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from interlock import guarded
from interlock.system.commands import Id, Shell
from translating import page
from translating.request import read_request

app = typer.Typer(no_args_is_help=True)
File = Annotated[Path, typer.Argument(help="The file with the request.")]
Agent = Annotated[str, typer.Option(help="The command that translates; bash runs it.")]
NewId = Annotated[str | None, typer.Option("--id", help="The id of the new record.")]


@app.command()
@guarded(actor="person")
def submit(shell: Shell, file: File, agent: Agent, new: NewId = None) -> None:
    """Ask for the translation that a file describes."""
    interlock = shell.client()
    payload = read_request(file, agent, interlock.records)
    created = interlock.submit(payload, machine="translation", id=new)
    shell.answer_record(interlock.show(created.id))


@app.command("list")
@guarded
def list_all(shell: Shell) -> None:
    """List translations."""
    interlock = shell.client()
    rows = [asdict(row) for row in interlock.list(machine="translation")]
    shell.answer(rows, show=page.listing, now_ms=interlock.now_ms())


@app.command()
@guarded
def show(shell: Shell, translation: Id) -> None:
    """Show a translation."""
    record = shell.client().show(translation, machine="translation")
    value = {"id": record.id, "state": record.state, **record.data}
    shell.answer(value, show=page.details)
