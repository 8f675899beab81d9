"""The commands of threads: submit, cards, decide, cleanup, handoff. They only call the client."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from interlock.workers.terminal import screen
from interlock.workers.terminal.answer import (
    Actor,
    AsJson,
    Id,
    Reason,
    answer,
    client,
    confirm_proposal,
    fail,
    guarded,
)
from interlock.workers.threads.client import Threads
from interlock.workers.threads.requests import read_request, request_files

app = typer.Typer()


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
    done = Threads(client(actor)).submit_many(payloads)
    rows = [
        {"id": one.id, "replayed": one.replayed, "error": str(one.error) if one.error else None}
        for one in done
    ]
    answer(rows, as_json=as_json, show=screen.submissions)
    if any(one.error for one in done):
        raise typer.Exit(1)


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
    seen = proposal or confirm_proposal(here, record_id, choice, as_json=as_json)
    record = here.decide(record_id, choice, fields, proposal=seen)
    answer({"id": record.id, "state": record.state}, as_json=as_json, show=screen.record_state)


@app.command()
@guarded
def cleanup(
    record_id: Id, reason: Reason = "", as_json: AsJson = False, actor: Actor = "person"
) -> None:
    """Say that the work is done elsewhere: tidy up its source and end it."""
    record = client(actor).fire(record_id, "cleanup_requested", reason=reason)
    answer({"id": record.id, "state": record.state}, as_json=as_json, show=screen.record_state)


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
    record = Threads(client(actor)).handoff(record_id, to=to, kind=kind, reference=reference)
    answer({"id": record.id, "state": record.state}, as_json=as_json, show=screen.record_state)
