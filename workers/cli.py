"""The command line: what producers, people and operators type. It only calls the client."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.exceptions import TyperException

from interlock.kernel.event import Event
from interlock.kernel.machines import MACHINES
from interlock.workers.config import settings_here
from interlock.workers.jobs.cli import app as job_app
from interlock.workers.loops.cli import app as agent_app
from interlock.workers.ops import demo as demonstration
from interlock.workers.ops.event_export import Export, export_to, instant_ms
from interlock.workers.ops.inspection import diagnose, verify_all
from interlock.workers.ops.outline import outline
from interlock.workers.ops.top.cli import top
from interlock.workers.runs.cli import app as run_app
from interlock.workers.supervision.cli import report
from interlock.workers.tasks.agents_cli import app as task_agent_app
from interlock.workers.tasks.cli import app as task_app
from interlock.workers.tasks.plans.cli import app as plan_app
from interlock.workers.terminal import screen
from interlock.workers.terminal.answer import (
    Actor,
    AsJson,
    Id,
    Reason,
    answer,
    client,
    fail,
    flagged,
    guarded,
    looked_at,
)
from interlock.workers.threads.requests import read_request, request_files

app = typer.Typer(
    name="interlock",
    help="Lifecycles of AI-agent work that no crash can strand or double.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)

app.add_typer(job_app, name="job")
app.add_typer(run_app, name="run")
app.add_typer(plan_app, name="plan")
app.add_typer(task_app, name="task")
agent_app.add_typer(task_agent_app)
app.add_typer(agent_app, name="agent")
app.command()(report)
app.command()(top)


@app.command()
@guarded
def up(as_json: AsJson = False) -> None:
    """Start store, workers, intake, beat and Flower, and keep them up until Ctrl-C."""

    def say(places: Mapping[str, str]) -> None:
        answer(places, as_json=as_json, show=screen.up)
        sys.stdout.flush()

    demonstration.keep_up(settings_here(), say=say)


@app.command()
@guarded
def demo() -> None:
    """Run the example inbox from producer to done, on a store of its own, and tell about it."""
    demonstration.run()


@app.command()
@guarded
def submit(
    paths: Annotated[
        list[Path] | None, typer.Argument(help="Requests (*.md), or folders of them.")
    ] = None,
    title: Annotated[str, typer.Option(help="A request in one line, instead of files.")] = "",
    text: Annotated[str, typer.Option(help="What there is to say about it.")] = "",
    record_id: Annotated[str | None, typer.Option("--id", help="An id of your own.")] = None,
    policy: Annotated[
        str | None, typer.Option(help="end_to_end, plan_then_review or hands_off.")
    ] = None,
    priority: Annotated[int, typer.Option(min=0, max=9, help="0 is first, 9 is last.")] = 5,
    hold: Annotated[bool, typer.Option(help="Leave it proposed until a person begins it.")] = False,
    as_json: AsJson = False,
    actor: Actor = "cli",
) -> None:
    """Hand in requests: files, folders, or one by --title. Repeating it changes nothing."""
    if bool(paths) is bool(title):
        fail("give files or folders, or a --title, not both", as_json=as_json, kind="UsageError")
    if paths:
        requests = [read_request(file) for path in paths for file in request_files(path)]
    else:
        one: dict[str, Any] = {"inciting": {"source": "cli", "title": title, "text": text}}
        requests = [one | {"id": record_id, "priority": priority, "policy": policy}]
    payloads = [{k: v for k, v in request.items() if v is not None} for request in requests]
    payloads = [payload | ({"hold": True} if hold else {}) for payload in payloads]
    done = client(actor).submit_many(payloads)
    rows = [
        {"id": one.id, "replayed": one.replayed, "error": str(one.error) if one.error else None}
        for one in done
    ]
    answer(rows, as_json=as_json, show=screen.submissions)
    if any(one.error for one in done):
        raise typer.Exit(1)


@app.command()
@guarded
def show(record_id: Id, as_json: AsJson = False) -> None:
    """Show where a record stands, what it asks, what runs, and what its actions did."""
    here = client()
    record = here.show(record_id)
    card = here.card(record_id)
    runs = screen.runs_of(here.history(record_id))
    value = asdict(record) | {"card": card.as_data() if card else None, "runs": runs}
    value |= {"children": here.dispatch.views.children(record_id)}
    answer(value, as_json=as_json, show=screen.record)


@app.command()
@guarded
def explain(
    record_id: Id,
    trigger: Annotated[str, typer.Argument(help="What would be fired.")],
    words: Annotated[str, typer.Option("--payload", help="Its fields, as a JSON object.")] = "{}",
    as_json: AsJson = False,
) -> None:
    """Say what firing a trigger now would do, or why it would be refused; nothing is fired."""
    try:
        payload = json.loads(words)
    except ValueError as refusal:
        fail(f"--payload is not JSON: {refusal}", as_json=as_json, kind="UsageError")
    found = client().explain(record_id, trigger, payload)
    value = {"id": record_id, "answer": found.sentence, "accepted": bool(found.target)}
    answer(value | asdict(found), as_json=as_json, show=screen.flagged)


@app.command()
@guarded
def history(record_id: Id, as_json: AsJson = False) -> None:
    """Show a record's whole log: every transition with its reasons, every note."""
    lines = client().history(record_id)
    value = [
        {"line": "event" if isinstance(line, Event) else "note"} | asdict(line) for line in lines
    ]
    answer(value, as_json=as_json, show=lambda _: screen.history(lines))


@app.command()
@guarded
def events(
    scopes: Annotated[
        list[str] | None,
        typer.Argument(help="Backlogs, or records with all below them; else all.", metavar="ID"),
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="From a time on: Unix seconds or ISO 8601.", metavar="TIME")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Go on with new ones.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write to this file instead.")] = None,
    as_json: AsJson = False,
) -> None:
    """Export what happened, each transition a line of JSON; docs/events.md has the fields."""
    since_ms = instant_ms(since) if since is not None else 0
    export = Export(client().dispatch, scopes or (), since_ms=since_ms)
    export_to(out, export, follow=follow)
    if out:
        value = {"file": str(out), "events": export.told}
        answer(value, as_json=as_json, show=screen.plain)


@app.command(name="list")
@guarded
def list_records(
    machine: Annotated[str, typer.Option(help="Which machine.")] = "thread",
    state: Annotated[str | None, typer.Option(help="Only this state.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000)] = 100,
    as_json: AsJson = False,
) -> None:
    """List records, the longest in their state first, with exact counts."""
    here = client()
    rows = here.list(machine=machine, state=state, limit=limit)
    counts = here.dispatch.views.counts(here.dispatch.lifecycle.machine(machine))
    value = {"counts": {k: v for k, v in counts.items() if v}, "records": [asdict(r) for r in rows]}
    now_ms = here.dispatch.views.now_ms()
    answer(value, as_json=as_json, show=lambda v: screen.standing(v, now_ms))


@app.command()
@guarded
def cards(
    limit: Annotated[int, typer.Option(min=1, max=10_000)] = 100,
    as_json: AsJson = False,
) -> None:
    """List what people are asked, the longest waiting first."""
    found = [card.as_data() for card in client().cards(limit=limit)]
    answer(found, as_json=as_json, show=screen.cards)


@app.command()
@guarded
def decide(
    record_id: Id,
    choice: Annotated[str, typer.Argument(help="One of the card's answers, such as approve.")],
    words: Annotated[
        str, typer.Option("--answer", help="The answer's fields, as a JSON object.")
    ] = "{}",
    text: Annotated[str, typer.Option(help="Short for the answer's main text.")] = "",
    proposal: Annotated[
        str | None, typer.Option(help="The proposal you saw; refused if stale.")
    ] = None,
    as_json: AsJson = False,
    actor: Actor = "person",
) -> None:
    """Answer a card."""
    try:
        fields = json.loads(words)
    except ValueError as refusal:
        fail(f"--answer is not JSON: {refusal}", as_json=as_json, kind="UsageError")
    if not isinstance(fields, dict):
        fail("--answer must be a JSON object", as_json=as_json, kind="UsageError")
    here = client(actor)
    if text:
        name = {"redirect": "feedback", "provide": "text", "edit": "intent"}.get(choice, "reason")
        fields[name] = text
    seen = proposal or looked_at(here, record_id, choice, as_json=as_json)
    record = here.decide(record_id, choice, fields, proposal=seen)
    answer({"id": record.id, "state": record.state}, as_json=as_json, show=screen.moved)


@app.command()
@guarded
def cleanup(
    record_id: Id, reason: Reason = "", as_json: AsJson = False, actor: Actor = "person"
) -> None:
    """Say that the work is done elsewhere: tidy up its source and end it."""
    record = client(actor).fire(record_id, "cleanup_requested", reason=reason)
    answer({"id": record.id, "state": record.state}, as_json=as_json, show=screen.moved)


@app.command()
@guarded
def handoff(
    record_id: Id,
    to: Annotated[str, typer.Option(help="Who goes on with it.")],
    reference: Annotated[str, typer.Option(help="Where it is found there: a link, a number.")],
    kind: Annotated[str, typer.Option(help="person or system.")] = "person",
    as_json: AsJson = False,
    actor: Actor = "person",
) -> None:
    """Hand a matter to a person or system; nothing of ours runs on it afterwards."""
    record = client(actor).handoff(record_id, to=to, kind=kind, reference=reference)
    answer({"id": record.id, "state": record.state}, as_json=as_json, show=screen.moved)


@app.command()
@guarded
def cancel(
    record_id: Id, reason: Reason = "", as_json: AsJson = False, actor: Actor = "person"
) -> None:
    """End a record; where an action is running, ask it to stop first."""
    record = client(actor).cancel(record_id, reason=reason)
    answer({"id": record.id, "state": record.state}, as_json=as_json, show=screen.moved)


@app.command()
@guarded
def pause(
    record_id: Id, reason: Reason = "", as_json: AsJson = False, actor: Actor = "person"
) -> None:
    """Start nothing new on a record; what runs ends, timers keep what they have left."""
    flagged(record_id, client(actor).pause(record_id, reason=reason), as_json=as_json)


@app.command()
@guarded
def resume(
    record_id: Id, reason: Reason = "", as_json: AsJson = False, actor: Actor = "person"
) -> None:
    """Lift a pause."""
    flagged(record_id, client(actor).resume(record_id, reason=reason), as_json=as_json)


@app.command()
@guarded
def retry(
    record_id: Id, reason: Reason = "", as_json: AsJson = False, actor: Actor = "person"
) -> None:
    """Let the quarantined effects of a record try again, with fresh attempts."""
    flagged(record_id, client(actor).retry(record_id, reason=reason), as_json=as_json)


@app.command()
@guarded
def machines(as_json: AsJson = False) -> None:
    """Print every machine's table: its states with what they owe, its rows with who fires them."""
    value = [outline(machine) for machine in MACHINES.values()]
    answer(value, as_json=as_json, show=screen.machines)


@app.command()
@guarded
def verify(
    record_ids: Annotated[
        list[str] | None, typer.Argument(help="Only these; otherwise all.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Recompute records from their logs and compare. Ends with 1 where one does not agree."""
    report = verify_all(client().dispatch, record_ids or None)
    answer(report, as_json=as_json, show=screen.verification)
    if report["faults"]:
        raise typer.Exit(1)


@app.command()
@guarded
def doctor(as_json: AsJson = False) -> None:
    """Read the live store: which promise is in force, what waits, what was set aside."""
    answer(diagnose(client().dispatch), as_json=as_json, show=screen.diagnosis)


@app.command()
def version(as_json: AsJson = False) -> None:
    """Print the version."""
    value = {"interlock": installed_version("interlock"), "python": sys.version.split()[0]}
    answer(value, as_json=as_json, show=lambda v: typer.echo(f"interlock {v['interlock']}"))


def main() -> None:
    """Run the command line. What was typed wrongly ends with 2, in JSON where that is asked."""
    if "--json" not in sys.argv:
        app()
    try:
        sys.exit(app(standalone_mode=False))
    except TyperException as refusal:
        message = {"error": "UsageError", "message": refusal.format_message()}
        typer.echo(json.dumps(message))
        sys.exit(refusal.exit_code)
