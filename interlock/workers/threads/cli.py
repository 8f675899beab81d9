"""The commands of threads: submit, cards, decide, cleanup, handoff. Each calls the client."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from interlock.kernel.machines.threads.thread.table import THREAD
from interlock.workers.engine.answer_commands import PLACEHOLDER, text_field, unfilled
from interlock.workers.terminal import screen
from interlock.workers.terminal.answer import (
    Actor,
    AsJson,
    Id,
    Reason,
    Tagged,
    answer,
    answer_record,
    asked_answer,
    caller,
    client,
    fail,
    guarded,
    json_object,
    listed,
)
from interlock.workers.terminal.cards import cards as show_cards
from interlock.workers.threads.client import Threads
from interlock.workers.threads.requests import (
    RequestError,
    RequestsError,
    read_request,
    request_files,
)
from interlock.workers.up_file import settings_here


@guarded
def submit(
    paths: Annotated[
        list[Path] | None, typer.Argument(help="Requests (*.md), or folders with requests.")
    ] = None,
    title: Annotated[
        str | None, typer.Option(help="The title of a request, instead of files.")
    ] = None,
    text: Annotated[str, typer.Option(help="The text of the request with that title.")] = "",
    record_id: Annotated[str | None, typer.Option("--id", help="An id that you choose.")] = None,
    policy: Annotated[
        str | None, typer.Option(help="end_to_end, plan_then_review or hands_off.")
    ] = None,
    priority: Annotated[int, typer.Option(min=0, max=9, help="0 is first, 9 is last.")] = 5,
    tag: Tagged = None,
    hold: Annotated[
        bool, typer.Option(help="Keep it in the state `proposed` until a person starts it.")
    ] = False,
    as_json: AsJson = False,
    actor: Actor = "cli",
) -> None:
    """Submit requests: files, folders, or one with --title. Repeating it changes nothing."""
    if paths and title is not None:
        fail("give files or folders, or a --title, not both", as_json=as_json, kind="UsageError")
    if not paths and not (title and title.strip()):
        problem = "the --title is empty" if title is not None else "nothing is given to submit"
        sentence = f"{problem}: give files or folders with requests (*.md), or --title 'a request'"
        fail(sentence, as_json=as_json, kind="UsageError")
    connected = caller(actor)
    if paths:
        requests = _read_all(paths, settings_here().host)
    else:
        request: dict[str, Any] = {"inciting": {"source": "cli", "title": title, "text": text}}
        requests = [request | {"id": record_id, "priority": priority, "policy": policy}]
    payloads = [{k: v for k, v in fields.items() if v is not None} for fields in requests]
    more = ({"hold": True} if hold else {}) | ({"tags": tag} if tag else {})
    payloads = [payload | more for payload in payloads]
    submitted = connected.submit_many(payloads, machine=THREAD.name)
    rows = [
        {"id": done.id, "replayed": done.replayed, "error": str(done.error) if done.error else None}
        for done in submitted
    ]
    answer(rows, as_json=as_json, show=screen.submissions)
    if any(done.error for done in submitted):
        raise typer.Exit(1)


def _read_all(paths: Sequence[Path], host: str) -> list[dict[str, Any]]:
    """Read every request, or raise RequestError with the faults of all files."""
    requests: list[dict[str, Any]] = []
    faults: list[RequestError] = []
    for path in paths:
        for file in request_files(path):
            try:
                requests.append(read_request(file, host=host))
            except RequestError as fault:
                faults.append(fault)
    if faults:
        raise RequestsError(faults)
    return requests


@guarded
def cards(
    tag: Annotated[
        list[str] | None, typer.Option(help="Only cards with this tag; repeat it for several.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000)] = 100,
    as_json: AsJson = False,
) -> None:
    """List the cards, the questions that wait for a person; the longest waiting comes first."""
    found = [card.as_data() for card in caller().cards(limit=limit + 1, tag=",".join(tag or ()))]
    rows = listed(found, limit, "the longest waiting first")
    answer(rows, as_json=as_json, show=show_cards)


@guarded
def decide(
    record_id: Id,
    choice: Annotated[str, typer.Argument(help="One of the card's choices, such as approve.")],
    fields_json: Annotated[
        str, typer.Option("--answer", help="The fields of the answer, as a JSON object.")
    ] = "{}",
    text: Annotated[
        str,
        typer.Option(
            "--text",
            "--reason",
            help="The main text of the answer, such as its reason; short for --answer.",
        ),
    ] = "",
    proposal: Annotated[
        str | None,
        typer.Option(
            help="The proposal that you saw. The answer is refused if another one is shown now."
        ),
    ] = None,
    as_json: AsJson = False,
    actor: Actor = "person",
) -> None:
    """Answer a card."""
    fields = json_object(fields_json, "--answer", as_json=as_json)
    connected = caller(actor)
    if text:
        fields[text_field(choice)] = text
    seen, given = asked_answer(connected, record_id, choice, fields, proposal, as_json=as_json)
    if unfilled(given):
        sentence = f"replace {PLACEHOLDER} by your answer"
        fail(sentence, as_json=as_json, kind="UsageError")
    record = connected.decide(record_id, choice, given, proposal=seen)
    answer_record(record, as_json=as_json, outlook=connected.outlook(record))


@guarded
def cleanup(
    record_id: Id, reason: Reason = "", as_json: AsJson = False, actor: Actor = "person"
) -> None:
    """End a thread whose work is done elsewhere, and remove the request from its source."""
    record = caller(actor).fire(record_id, "cleanup_requested", reason=reason)
    answer_record(record, as_json=as_json)


@guarded
def handoff(
    record_id: Id,
    to: Annotated[str, typer.Option(help="The person or system that continues the thread.")],
    reference: Annotated[str, typer.Option(help="Where to find it there: a link or a number.")],
    kind: Annotated[str, typer.Option(help="person or system.")] = "person",
    as_json: AsJson = False,
    actor: Actor = "person",
) -> None:
    """Hand a thread to a person or system. Interlock runs nothing on it afterwards."""
    record = Threads(client(actor)).handoff(record_id, to=to, kind=kind, reference=reference)
    answer_record(record, as_json=as_json)
