"""The commands of translations."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from interlock import guarded
from interlock.system.commands import Actor, AsJson, Id, answer, answer_record, client
from translating import page
from translating.request import read_request

app = typer.Typer(no_args_is_help=True)
File = Annotated[Path, typer.Argument(help="The file with the request.")]
Agent = Annotated[str, typer.Option(help="The command that translates; bash runs it.")]
NewId = Annotated[str | None, typer.Option("--id", help="The id of the new record.")]


@app.command()
@guarded
def submit(
    file: File, agent: Agent, new: NewId = None, actor: Actor = "person", as_json: AsJson = False
) -> None:
    """Ask for the translation that a file describes."""
    interlock = client(actor)
    payload = read_request(file, agent, interlock.records)
    created = interlock.submit(payload, machine="translation", id=new)
    answer_record(interlock.show(created.id), as_json=as_json)


@app.command("list")
@guarded
def list_all(as_json: AsJson = False) -> None:
    """List translations."""
    interlock = client()
    rows = [asdict(row) for row in interlock.list(machine="translation")]
    answer(rows, as_json=as_json, show=page.listing, now_ms=interlock.now_ms())


@app.command()
@guarded
def show(translation: Id, as_json: AsJson = False) -> None:
    """Show a translation."""
    record = client().show(translation)
    value = {"id": record.id, "state": record.state, **record.data}
    answer(value, as_json=as_json, show=page.details)
