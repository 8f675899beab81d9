"""The command line of what is kept of runs: validate, export, import. It only calls the client."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from interlock.workers.runs import screen as run_screen
from interlock.workers.runs.client import Runs
from interlock.workers.terminal.answer import Actor, AsJson, answer, client, guarded

app = typer.Typer()

Folder = Annotated[Path, typer.Option("--workspace", "-w", help="The folder of the runs.")]
HERE = Path()


@app.command()
@guarded
def validate(
    workspace: Annotated[
        Path | None, typer.Option("--workspace", "-w", help="The folder of the runs; else here.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(help="Validate this export; its checkpoints only with --workspace."),
    ] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Mend what needs no guess; all else is explained.")
    ] = False,
    as_json: AsJson = False,
    actor: Actor = "person",
) -> None:
    """Say whether records, logs, costs, checkpoints and folders agree; exit code 1 if not."""
    if file is not None and repair:
        raise typer.BadParameter("an export is not repaired; import it, and repair that")
    runs = Runs(client(actor))
    if file is not None:
        found = runs.validate_export(file, workspace)
    else:
        found = runs.validate(workspace or HERE, repair=repair)
    answer(found.as_data(), as_json=as_json, show=run_screen.validation)
    if not found.valid:
        raise typer.Exit(1)


@app.command()
@guarded
def export(
    file: Annotated[Path, typer.Argument(help="Where to; FILE.bak keeps what was there.")],
    workspace: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """Write all runs of a folder, with their logs, into one file, while none is at work."""
    done = Runs(client()).export(workspace, file)
    value = {"file": str(done.file), "records": done.records, "warnings": done.warnings}
    answer(value, as_json=as_json, show=run_screen.exported)


@app.command(name="import")
@guarded
def import_(
    file: Annotated[Path, typer.Argument(help="An export; its backup is used if it is torn.")],
    workspace: Folder = HERE,
    as_json: AsJson = False,
    actor: Actor = "person",
) -> None:
    """Bring the runs of a folder back into a store that lost them; repeat it if it broke off."""
    done = Runs(client(actor)).import_(file, workspace)
    value = {
        "workspace": done.workspace.id,
        "file": str(done.source),
        "written": done.written,
        "there": done.there,
        "warnings": done.warnings,
    }
    answer(value, as_json=as_json, show=run_screen.imported)
