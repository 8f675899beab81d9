"""The command line of runs of codons: `interlock run ...`. It only calls the client."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from interlock.kernel.errors import InvalidPayloadError
from interlock.kernel.machines.runs.events import run_event
from interlock.kernel.record import Record
from interlock.workers.runs import screen as run_screen
from interlock.workers.runs.archive_cli import app as archive_app
from interlock.workers.runs.client import Heard, Runs, number_of
from interlock.workers.runs.run_view import codon_shown, run_shown
from interlock.workers.terminal.answer import Actor, AsJson, Reason, answer, client, guarded
from interlock.workers.terminal.screen import fields

app = typer.Typer(help="Runs: ordered programmes of agent steps over a folder.")
app.add_typer(archive_app)

PlanFile = Annotated[Path, typer.Argument(help="A plan: docs/runs.md says what is in it.")]
Workspace = Annotated[Path, typer.Option("--workspace", "-w", help="The folder it works on.")]
Wait = Annotated[float, typer.Option("--wait", min=0, help="Seconds to wait for its end.")]
AsIs = Annotated[bool, typer.Option("--as-is", help="Keep what was mended in the workspace since.")]
HERE = Path()


def shown(runs: Runs, run: Record, *, as_json: bool) -> None:
    """Print a run."""
    value = run_shown(run, runs.codons(run.id), runs.dispatch.views.now_ms())
    answer(value, as_json=as_json, show=run_screen.run)


def waited(runs: Runs, run: Record, wait_s: float, *, as_json: bool) -> None:
    """Print a run that began; with time to wait its end, and exit code 1 where that is no good."""
    found = runs.ended(run.id, wait_s) if wait_s else run
    shown(runs, found, as_json=as_json)
    if wait_s and found.state != "completed":
        raise typer.Exit(1)


@app.command()
@guarded
def start(
    plan: PlanFile,
    workspace: Workspace = HERE,
    wait: Wait = 0,
    as_json: AsJson = False,
    actor: Actor = "person",
) -> None:
    """Begin a run of a plan, with the workspace as it is."""
    runs = Runs(client(actor))
    waited(runs, runs.start(plan, workspace), wait, as_json=as_json)


@app.command()
@guarded
def status(
    workspace: Workspace = HERE,
    number: Annotated[int | None, typer.Option("--run", help="Another than the last.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show how far the last run is, what each codon came to, and what it costs."""
    runs = Runs(client())
    shown(runs, runs.one(workspace, number), as_json=as_json)


@app.command()
@guarded
def watch(
    workspace: Workspace = HERE,
    after: Annotated[str, typer.Option(help="Go on after this position.")] = "0-0",
    until_end: Annotated[bool, typer.Option(help="End with the last run.")] = True,
    as_json: AsJson = False,
) -> None:
    """Show every event that is applied, in order, from the first one on."""
    runs = Runs(client())
    opened = runs.workspace(workspace)
    try:
        for heard in runs.follow(opened, after):
            value = _heard(heard)
            answer(value, as_json=as_json, show=run_screen.event)
            sys.stdout.flush()
            if until_end and heard.ends and runs.last(opened).id == heard.record:
                return
    except KeyboardInterrupt:
        return


@app.command()
@guarded
def skip(
    workspace: Workspace = HERE,
    reason: Reason = "",
    as_json: AsJson = False,
    actor: Actor = "person",
) -> None:
    """Skip the codon that is executed now: the run goes on with the next one."""
    runs = Runs(client(actor))
    codon = runs.skip(workspace, reason=reason)
    value = codon_shown(codon, runs.dispatch.views.now_ms())
    answer(value, as_json=as_json, show=lambda row: run_screen.codons([row]))


@app.command()
@guarded
def stop(
    workspace: Workspace = HERE,
    reason: Reason = "",
    force: Annotated[
        bool, typer.Option(help="End it even if nobody is there to end its processes.")
    ] = False,
    wait: Wait = 60,
    as_json: AsJson = False,
    actor: Actor = "person",
) -> None:
    """End the run; what is done stays, and `continue` goes on from there."""
    runs = Runs(client(actor))
    shown(runs, runs.stop(workspace, reason=reason, force=force, wait_s=wait), as_json=as_json)


@app.command()
@guarded
def redo(
    codon: Annotated[str, typer.Argument(help="A codon; the one that failed if none.")] = "",
    workspace: Workspace = HERE,
    as_is: AsIs = False,
    wait: Wait = 0,
    as_json: AsJson = False,
    actor: Actor = "person",
) -> None:
    """Execute a codon anew, and all that follows it, in a new run."""
    runs = Runs(client(actor))
    waited(runs, runs.redo(workspace, codon, as_is=as_is), wait, as_json=as_json)


@app.command()
@guarded
def rollback(
    to: Annotated[
        str, typer.Option(help="A checkpoint's id, CODON:TYPE, last-success, or initial.")
    ],
    workspace: Workspace = HERE,
    wait: Wait = 0,
    as_json: AsJson = False,
    actor: Actor = "person",
) -> None:
    """Bring the workspace back to a checkpoint, and go on from there in a new run."""
    runs = Runs(client(actor))
    waited(runs, runs.rollback(workspace, to), wait, as_json=as_json)


@app.command(name="continue")
@guarded
def proceed(
    workspace: Workspace = HERE,
    as_is: AsIs = False,
    wait: Wait = 0,
    as_json: AsJson = False,
    actor: Actor = "person",
) -> None:
    """Go on with the last run from its last checkpoint, in a new run."""
    runs = Runs(client(actor))
    waited(runs, runs.proceed(workspace, as_is=as_is), wait, as_json=as_json)


@app.command()
@guarded
def close(
    workspace: Workspace = HERE,
    reason: Reason = "",
    as_json: AsJson = False,
    actor: Actor = "person",
) -> None:
    """Let no more runs begin in a folder; what is known of them is forgotten in time."""
    closed = Runs(client(actor)).close(workspace, reason=reason)
    answer({"id": closed.id, "state": closed.state}, as_json=as_json, show=fields)


@app.command()
@guarded
def checkpoints(workspace: Workspace = HERE, as_json: AsJson = False) -> None:
    """List the checkpoints that can be gone back to."""
    runs = Runs(client())
    rows = [
        {"sha": one.sha, "type": one.type, "run": one.run, "codon": one.codon, "after": one.after}
        for one in runs.checkpoints(workspace)
    ]
    answer(rows, as_json=as_json, show=run_screen.checkpoints)


@app.command()
@guarded
def costs(
    workspace: Workspace = HERE,
    since: Annotated[int | None, typer.Option(min=1, help="This run and newer ones.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what was paid: in the last run, in all runs, and for each codon of the last."""
    runs = Runs(client())
    now_ms, run = runs.dispatch.views.now_ms(), runs.one(workspace, None)
    value: dict[str, Any] = {**runs.costs(workspace, since=since)}
    value |= {"since_run": since} if since is not None else {}
    value["codons"] = [codon_shown(one, now_ms) for one in runs.codons(run.id)]
    answer(value, as_json=as_json, show=run_screen.costs)


@app.command()
@guarded
def tell(
    event: Annotated[str, typer.Argument(help='An event as JSON; "-" reads it from stdin.')],
    workspace: Workspace = HERE,
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait for the answer.")] = 30,
    as_json: AsJson = False,
    actor: Actor = "person",
) -> None:
    """Tell a run an event, and show what became of it."""
    runs = Runs(client(actor))
    receipt = runs.transition(runs.workspace(workspace), run_event(_said(event)), sender=actor)
    value = asdict(receipt)
    if wait:
        note = runs.wait_for_pending(receipt, wait_s=wait)
        value |= {"answer": note.kind, **note.detail}
    answer(value, as_json=as_json, show=fields)
    if value.get("answer") == "event_refused":
        raise typer.Exit(1)


def _said(event: str) -> dict[str, Any]:
    text = sys.stdin.read() if event == "-" else event
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidPayloadError("the event", [f"it is no JSON: {error}"]) from error
    if not isinstance(found, dict):
        raise InvalidPayloadError("the event", [f"it is {type(found).__name__}, not an object"])
    return found


def _heard(heard: Heard) -> dict[str, Any]:
    return {
        "position": heard.position,
        "at_ms": int(heard.position.partition("-")[0]),
        "run": number_of(heard.record) if "/" in heard.record else None,
        "event": dict(heard.event),
    }
