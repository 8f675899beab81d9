"""The commands of operators, for records of every system. They only call the client."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from interlock.kernel.event import Event
from interlock.kernel.machines import MACHINES
from interlock.workers.config import local_settings
from interlock.workers.ops import demo as demonstration
from interlock.workers.ops import screen
from interlock.workers.ops.event_export import Export, export_to, instant_ms
from interlock.workers.ops.inspection import diagnose, verify_all
from interlock.workers.ops.outline import outline
from interlock.workers.terminal.answer import (
    Actor,
    AsJson,
    Id,
    Reason,
    answer,
    answer_flag,
    client,
    fail,
    guarded,
)
from interlock.workers.terminal.screen import fields, record_answer, record_state
from interlock.workers.threads.screen import runs_of

app = typer.Typer()


@app.command()
@guarded
def up(as_json: AsJson = False) -> None:
    """Start store, workers, intake, beat and Flower, and keep them up until Ctrl-C."""

    def say(places: Mapping[str, str]) -> None:
        answer(places, as_json=as_json, show=screen.up)
        sys.stdout.flush()

    demonstration.keep_up(local_settings(), say=say)


@app.command()
@guarded
def demo() -> None:
    """Run the example inbox from producer to done, on a store of its own, and tell about it."""
    demonstration.run()


@app.command()
@guarded
def show(record_id: Id, as_json: AsJson = False) -> None:
    """Show where a record stands, what it asks, what runs, and what its actions did."""
    here = client()
    record = here.show(record_id)
    card = here.card(record_id)
    runs = runs_of(here.history(record_id))
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
    answer(value | asdict(found), as_json=as_json, show=record_answer)


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
        answer(value, as_json=as_json, show=fields)


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
    answer(value, as_json=as_json, show=lambda v: screen.records(v, now_ms))


@app.command()
@guarded
def cancel(
    record_id: Id, reason: Reason = "", as_json: AsJson = False, actor: Actor = "person"
) -> None:
    """End a record; where an action is running, ask it to stop first."""
    record = client(actor).cancel(record_id, reason=reason)
    answer({"id": record.id, "state": record.state}, as_json=as_json, show=record_state)


@app.command()
@guarded
def pause(
    record_id: Id, reason: Reason = "", as_json: AsJson = False, actor: Actor = "person"
) -> None:
    """Start nothing new on a record; what runs ends, timers keep what they have left."""
    answer_flag(record_id, client(actor).pause(record_id, reason=reason), as_json=as_json)


@app.command()
@guarded
def resume(
    record_id: Id, reason: Reason = "", as_json: AsJson = False, actor: Actor = "person"
) -> None:
    """Lift a pause."""
    answer_flag(record_id, client(actor).resume(record_id, reason=reason), as_json=as_json)


@app.command()
@guarded
def retry(
    record_id: Id, reason: Reason = "", as_json: AsJson = False, actor: Actor = "person"
) -> None:
    """Let the quarantined effects of a record try again, with fresh attempts."""
    answer_flag(record_id, client(actor).retry(record_id, reason=reason), as_json=as_json)


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
