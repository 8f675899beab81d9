"""The commands of threads: submit, cleanup, handoff. Each calls the client."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from interlock import guarded
from interlock.system.commands import Id, Reason, Shell, Tagged
from interlock.system.files import FileError
from interlock.systems.threads.client import Threads
from interlock.systems.threads.machines.thread.names import Trigger
from interlock.systems.threads.machines.thread.table import THREAD
from interlock.systems.threads.requests import (
    RequestsError,
    read_request,
    request_files,
)

POLICIES = (
    "When a person is asked. plan_then_review (the default): before the action. end_to_end: only"
    " where something is uncertain or risky. ask_every_step: about the intent, the context and the"
    " action."
)


@guarded(actor="cli")
def submit(
    shell: Shell,
    paths: Annotated[
        list[Path] | None, typer.Argument(help="Requests (*.md), or folders with requests.")
    ] = None,
    title: Annotated[
        str | None, typer.Option(help="The title of a request, instead of files.")
    ] = None,
    text: Annotated[str, typer.Option(help="The text of the request with that title.")] = "",
    record_id: Annotated[str | None, typer.Option("--id", help="An id that you choose.")] = None,
    policy: Annotated[str | None, typer.Option(help=POLICIES)] = None,
    priority: Annotated[int, typer.Option(min=0, max=9, help="0 is first, 9 is last.")] = 5,
    tag: Tagged = None,
    hold: Annotated[
        bool, typer.Option(help="Keep it in the state `proposed` until a person starts it.")
    ] = False,
) -> None:
    """Submit requests: files, folders, or one with --title. Repeating it changes nothing."""
    if paths and title is not None:
        shell.fail("give files or folders, or a --title, not both")
    if not paths and not (title and title.strip()):
        problem = "the --title is empty" if title is not None else "nothing is given to submit"
        sentence = f"{problem}: give files or folders with requests (*.md), or --title 'a request'"
        shell.fail(sentence)
    connected = shell.caller()
    if paths:
        requests = _read_all(paths, shell.host)
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
    shell.answer(rows)
    refused = [done for done in submitted if done.error]
    for done in refused if not shell.as_json else ():
        shell.error(f"{done.id}: {done.error}" if done.id else str(done.error))
    if refused:
        raise typer.Exit(1)


def _read_all(paths: Sequence[Path], host: str) -> list[dict[str, Any]]:
    """Read every request, or raise RequestsError with the faults of all files."""
    requests: list[dict[str, Any]] = []
    faults: list[FileError] = []
    for path in paths:
        for file in request_files(path):
            try:
                requests.append(read_request(file, host=host))
            except FileError as fault:
                faults.append(fault)
    if faults:
        raise RequestsError(faults)
    return requests


@guarded(actor="person")
def cleanup(shell: Shell, record_id: Id, reason: Reason = "") -> None:
    """End a thread whose work is done elsewhere, and remove the request from its source."""
    opened = shell.caller()
    opened.show(record_id, machine=THREAD.name)
    record = opened.fire(record_id, Trigger.CLEANUP_REQUESTED, reason=reason)
    shell.answer_record(record)


@guarded(actor="person")
def handoff(
    shell: Shell,
    record_id: Id,
    to: Annotated[str, typer.Option(help="The person or system that continues the thread.")],
    reference: Annotated[str, typer.Option(help="Where to find it there: a link or a number.")],
    kind: Annotated[str, typer.Option(help="person or system.")] = "person",
) -> None:
    """Hand a thread to a person or system. Interlock runs nothing on it afterwards."""
    record = Threads(shell.client()).handoff(record_id, to=to, kind=kind, reference=reference)
    shell.answer_record(record)
