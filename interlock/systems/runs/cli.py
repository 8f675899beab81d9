"""The commands of runs of codons: `interlock run ...`. They only call the client."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from enum import StrEnum, auto
from pathlib import Path
from typing import Annotated, Any

import typer

from interlock import guarded
from interlock.system.commands import Reason, Shell
from interlock.system.errors import InvalidPayloadError
from interlock.system.tables import Record
from interlock.systems.runs import page
from interlock.systems.runs.client import AppliedEvent, Runs, UnreadEventError
from interlock.systems.runs.history import run_number
from interlock.systems.runs.machines.published_names import to_published
from interlock.systems.runs.machines.run.table import State as RunState
from interlock.systems.runs.run_values import codon_value, run_value
from interlock.systems.runs.state_file import published_costs, published_run

app = typer.Typer()

PlanFile = Annotated[Path, typer.Argument(help="A plan: docs/runs.md says what is in it.")]
Workspace = Annotated[
    Path, typer.Option("--workspace", "-w", help="The folder that the run works on.")
]
Wait = Annotated[
    float, typer.Option("--wait", min=0, help="Seconds to wait for the end of the run.")
]
AsIs = Annotated[
    bool, typer.Option("--as-is", help="Keep the repairs that you made in the workspace.")
]


class NameForm(StrEnum):
    """The names and units in which runs are printed: ours, or those of the published page."""

    INTERLOCK = auto()
    HANKWEAVE = auto()


Names = Annotated[
    NameForm,
    typer.Option("--names", help="The names and units of the JSON: ours, or the published page's."),
]
HERE = Path()


def are_published(shell: Shell, names: NameForm) -> bool:
    """Return whether JSON is wanted in the page's form, which people are not shown."""
    if names is NameForm.HANKWEAVE and not shell.as_json:
        raise typer.BadParameter(f"--names {names} is for programs; add --json")
    return names is NameForm.HANKWEAVE


def print_run(shell: Shell, runs: Runs, run: Record) -> None:
    """Print a run."""
    now_ms = runs.records.now_ms()
    value = run_value(run, runs.codons(run.id), now_ms)
    shell.answer(value, show=lambda value: page.run(value, run), now_ms=now_ms)


def wait_and_print(shell: Shell, runs: Runs, run: Record, wait_s: float) -> None:
    """Print a run that started. With `wait_s` wait for its end; exit with 1 unless completed."""
    found = runs.wait_for_end(run.id, wait_s) if wait_s else run
    print_run(shell, runs, found)
    if wait_s and found.state != RunState.COMPLETED:
        raise typer.Exit(1)


@app.command()
@guarded(actor="person")
def start(
    shell: Shell,
    plan: PlanFile,
    workspace: Workspace = HERE,
    wait: Wait = 0,
) -> None:
    """Start a run of a plan, with the workspace as it is."""
    runs = Runs(shell.client())
    wait_and_print(shell, runs, runs.start(plan, workspace), wait)


@app.command()
@guarded
def status(
    shell: Shell,
    workspace: Workspace = HERE,
    number: Annotated[
        int | None, typer.Option("--run", help="The number of a run. Default: the last run.")
    ] = None,
    names: Names = NameForm.INTERLOCK,
) -> None:
    """Show the progress of the last run, the result of each codon, and the costs."""
    runs = Runs(shell.client())
    run = runs.run(workspace, number)
    if are_published(shell, names):
        shell.answer(published_run(run, runs.codons(run.id)))
        return
    print_run(shell, runs, run)


@app.command()
@guarded
def watch(
    shell: Shell,
    workspace: Workspace = HERE,
    after: Annotated[str, typer.Option(help="Show only events after this position.")] = "0-0",
    until_end: Annotated[bool, typer.Option(help="Stop at the end of the last run.")] = True,
    names: Names = NameForm.INTERLOCK,
) -> None:
    """Show every event that is applied, in order, from the first one on."""
    runs = Runs(shell.client())
    published = are_published(shell, names)
    opened = runs.workspace(workspace)
    try:
        for applied in runs.follow(opened, after):
            value = _event_value(applied, to_published if published else dict)
            shell.answer(value, show=lambda value: [page.event(value)])
            sys.stdout.flush()
            if until_end and applied.ends and runs.last(opened).id == applied.record:
                return
    except KeyboardInterrupt:
        return


@app.command()
@guarded(actor="person")
def skip(
    shell: Shell,
    workspace: Workspace = HERE,
    reason: Reason = "",
) -> None:
    """Skip the codon that is executed now: the run goes on with the next one."""
    runs = Runs(shell.client())
    codon = runs.skip(workspace, reason=reason)
    value = codon_value(codon, runs.records.now_ms())
    shell.answer(value, show=lambda row: [page.codons([row])])


@app.command()
@guarded(actor="person")
def stop(
    shell: Shell,
    workspace: Workspace = HERE,
    reason: Reason = "",
    force: Annotated[
        bool, typer.Option(help="End it even if no supervisor is alive to end its processes.")
    ] = False,
    wait: Wait = 60,
) -> None:
    """End the run; finished work stays, and `continue` resumes from there."""
    runs = Runs(shell.client())
    print_run(shell, runs, runs.stop(workspace, reason=reason, force=force, wait_s=wait))


@app.command()
@guarded(actor="person")
def redo(
    shell: Shell,
    codon: Annotated[str, typer.Argument(help="A codon. Default: the one that failed.")] = "",
    workspace: Workspace = HERE,
    as_is: AsIs = False,
    wait: Wait = 0,
) -> None:
    """Execute a codon and all codons after it again, in a new run."""
    runs = Runs(shell.client())
    wait_and_print(shell, runs, runs.redo(workspace, codon, as_is=as_is), wait)


@app.command()
@guarded(actor="person")
def rollback(
    shell: Shell,
    to: Annotated[
        str, typer.Option(help="A checkpoint's id, CODON:TYPE, last-success, or initial.")
    ],
    workspace: Workspace = HERE,
    wait: Wait = 0,
) -> None:
    """Restore the workspace to a checkpoint, and continue from there in a new run.

    The codons after the checkpoint are executed again and cost again. If files
    differ from it, they are kept on a recovery checkpoint first: `interlock run status` names it.
    """
    runs = Runs(shell.client())
    wait_and_print(shell, runs, runs.rollback(workspace, to), wait)


@app.command(name="continue")
@guarded(actor="person")
def resume(
    shell: Shell,
    workspace: Workspace = HERE,
    as_is: AsIs = False,
    wait: Wait = 0,
) -> None:
    """Resume the last run from its last checkpoint, in a new run."""
    runs = Runs(shell.client())
    wait_and_print(shell, runs, runs.resume(workspace, as_is=as_is), wait)


@app.command()
@guarded(actor="person")
def close(
    shell: Shell,
    workspace: Workspace = HERE,
    reason: Reason = "",
) -> None:
    """Close a folder: no run can start there again, and its records are deleted in time."""
    closed = Runs(shell.client()).close(workspace, reason=reason)
    shell.answer({"id": closed.id, "state": closed.state})


@app.command()
@guarded
def checkpoints(shell: Shell, workspace: Workspace = HERE) -> None:
    """List the checkpoints that the workspace can be restored to."""
    runs = Runs(shell.client())
    rows = [each.fields for each in runs.checkpoints(workspace)]
    shell.answer(rows, show=lambda rows: [page.checkpoints(rows)])


@app.command()
@guarded
def costs(
    shell: Shell,
    workspace: Workspace = HERE,
    since: Annotated[
        int | None, typer.Option(min=1, help="Also show the costs of this run and newer ones.")
    ] = None,
    names: Names = NameForm.INTERLOCK,
) -> None:
    """Show the costs of the last run, of all runs, and of each codon of the last run."""
    runs = Runs(shell.client())
    now_ms, run = runs.records.now_ms(), runs.run(workspace, None)
    value: dict[str, Any] = {**runs.costs(workspace, since=since)}
    if are_published(shell, names):
        found = published_costs(run, runs.codons(run.id), value)
        shell.answer(found)
        return
    value |= {"since_run": since} if since is not None else {}
    value["codons"] = [codon_value(codon, now_ms) for codon in runs.codons(run.id)]
    shell.answer(value, show=page.costs)


@app.command()
@guarded(actor="person")
def tell(
    shell: Shell,
    event: Annotated[str, typer.Argument(help='An event as JSON; "-" reads it from stdin.')],
    workspace: Workspace = HERE,
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait for the answer.")] = 30,
) -> None:
    """Deliver an event to a run, and show its answer."""
    runs = Runs(shell.client())
    receipt = runs.transition(runs.workspace(workspace), _event_from(event), sender=shell.actor)
    value = asdict(receipt)
    if wait:
        try:
            note = runs.wait_for_pending(receipt, wait_s=wait)
        except UnreadEventError as unread:
            # Programs know it as this kind.
            shell.fail(str(unread), kind="StoreDownError")
        value |= {"answer": note.kind, **note.detail}
    shell.answer(value, show=lambda value: [value])
    if value.get("answer") == "event_refused":
        raise typer.Exit(1)


@app.command()
@guarded(actor="person")
def validate(
    shell: Shell,
    workspace: Annotated[
        Path | None,
        typer.Option("--workspace", "-w", help="The folder of the runs. Default: the current one."),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(help="Validate this export or state file; --workspace adds its checkpoints."),
    ] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Repair the findings that need no guess.")
    ] = False,
) -> None:
    """Check that records, logs, costs, checkpoints and folders agree; exit with 1 if not."""
    if file is not None and repair:
        raise typer.BadParameter(
            "an export cannot be repaired; import it, then repair the workspace"
        )
    runs = Runs(shell.client())
    if file is not None:
        found = runs.validate_export(file, workspace)
    else:
        found = runs.validate(workspace or HERE, repair=repair)
    shell.answer(found.as_data(), show=page.validation)
    if not found.valid:
        raise typer.Exit(1)


@app.command()
@guarded
def export(
    shell: Shell,
    file: Annotated[
        Path, typer.Argument(help="The file to write; FILE.bak keeps its old content.")
    ],
    workspace: Workspace = HERE,
    names: Names = NameForm.INTERLOCK,
) -> None:
    """Write all runs of a folder, with their logs, into one file; none may be running.

    With the published names it is the page's state file, without logs: it cannot be imported.
    """
    runs = Runs(shell.client())
    write = runs.export_state if names is NameForm.HANKWEAVE else runs.export
    done = write(workspace, file)
    value = {"file": str(done.file), "records": done.records, "warnings": done.warnings}
    shell.answer(value, show=page.exported)


@app.command(name="import")
@guarded(actor="person")
def import_(
    shell: Shell,
    file: Annotated[Path, typer.Argument(help="An export; its backup is used if it is damaged.")],
    workspace: Workspace = HERE,
) -> None:
    """Restore the runs of a folder into a store that lost them; repeat it if interrupted."""
    done = Runs(shell.client()).import_(file, workspace)
    value = {
        "workspace": done.workspace.id,
        "file": str(done.source),
        "written": done.written,
        "there": done.existing,
        "warnings": done.warnings,
    }
    shell.answer(value, show=page.imported)


def _event_from(text: str) -> dict[str, Any]:
    try:
        found = json.loads(sys.stdin.read() if text == "-" else text)
    except json.JSONDecodeError as error:
        raise InvalidPayloadError("the event", [f"it is not JSON: {error}"]) from error
    except RecursionError:
        raise InvalidPayloadError("the event", ["it is nested too deeply"]) from None
    if not isinstance(found, dict):
        raise InvalidPayloadError("the event", [f"it is {type(found).__name__}, not an object"])
    return found


def _event_value(
    applied: AppliedEvent, form: Callable[[Mapping[str, Any]], dict[str, Any]]
) -> dict[str, Any]:
    return {
        "position": applied.position,
        "at_ms": int(applied.position.partition("-")[0]),
        "run": run_number(applied.record) if "/" in applied.record else None,
        "event": form(applied.event),
    }
