"""Prints what commands return and refuse: JSON for programs, tables and sentences for people."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, NoReturn

import typer

from interlock.kernel.errors import KernelError
from interlock.kernel.record import Record
from interlock.workers.client import Client, WaitTimeoutError
from interlock.workers.config import SetupError, local_settings
from interlock.workers.terminal import screen

Id = Annotated[str, typer.Argument(help="A record's id.", metavar="ID")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Actor = Annotated[str, typer.Option("--as", help="The name under which you act; the log keeps it.")]
Reason = Annotated[str, typer.Option("--reason", help="Why; the log keeps it.")]
EXPECTED_ERRORS = (KernelError, SetupError, WaitTimeoutError)


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """Print an error that the user can correct as one sentence, and exit with code 1."""

    @wraps(command)
    def run(*args: Any, **options: Any) -> None:
        try:
            command(*args, **options)
        except EXPECTED_ERRORS as error:
            fail(str(error), as_json=bool(options.get("as_json")), kind=type(error).__name__)
        except OSError as refusal:
            # Of a file, such as a home that cannot be written; any other is a fault of ours.
            if refusal.filename is None:
                raise
            sentence = f"{os.fsdecode(refusal.filename)}: {refusal.strerror}"
            fail(sentence, as_json=bool(options.get("as_json")), kind=type(refusal).__name__)

    return run


def fail(sentence: str, *, as_json: bool, kind: str) -> NoReturn:
    """Print an error, on stderr or as JSON, and exit with code 1."""
    if as_json:
        typer.echo(json.dumps({"error": kind, "message": sentence}))
    else:
        screen.error(sentence)
    raise typer.Exit(1)


def answer(value: Any, *, as_json: bool, show: Callable[[Any], None]) -> None:
    """Print a value for a program or for a person."""
    if as_json:
        typer.echo(json.dumps(value, ensure_ascii=False, default=str))
    else:
        show(value)


def answer_record(record: Record, *, as_json: bool) -> None:
    """Print the id of a record and its state."""
    value = {"id": record.id, "state": record.state}
    answer(value, as_json=as_json, show=screen.record_state)


def client(actor: str = "person") -> Client:
    """Open the client on the store that the settings name, or on the one that `up` started here."""
    opened = Client(local_settings(), actor=actor)
    opened.dispatch.greet()
    return opened


def answer_flag(record_id: str, status: str, *, as_json: bool) -> None:
    """Print what a pause, resume or retry came to. Exit with code 1 if it had nothing to act on."""
    answer({"id": record_id, "answer": status}, as_json=as_json, show=screen.record_answer)
    if status in ("ended", "nothing"):
        raise typer.Exit(1)


def confirm_proposal(interlock: Client, record_id: str, choice: str, *, as_json: bool) -> str:
    """Show a card, ask for confirmation, and return the proposal that the person saw."""
    card = interlock.card(record_id)
    seen = card.proposal if card else interlock.show(record_id).proposal
    if card is None or as_json or not sys.stdin.isatty():
        if card is not None:
            sentence = f"name the proposal that you saw: --proposal {seen} is the current one"
            fail(sentence, as_json=as_json, kind="UsageError")
        return seen
    screen.cards([card.as_data()])
    typer.confirm(f"{choice}?", abort=True)
    return seen
