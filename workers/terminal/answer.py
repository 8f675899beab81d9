"""How the command line answers and refuses: for programs in JSON, for people in sentences."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, NoReturn

import typer

from interlock.kernel.errors import KernelError, StoreDownError
from interlock.workers.client import Client, WaitTimeoutError
from interlock.workers.config import SetupError, local_settings
from interlock.workers.terminal import screen

Id = Annotated[str, typer.Argument(help="A record's id.", metavar="ID")]
AsJson = Annotated[bool, typer.Option("--json", help="Answer in JSON, for programs.")]
Actor = Annotated[str, typer.Option("--as", help="Who is acting; the log keeps it.")]
Reason = Annotated[str, typer.Option("--reason", help="Why; the log keeps it.")]
STORE_HINT = " (`interlock up` starts a store here; INTERLOCK_STORE_URL names another)"
EXPECTED_ERRORS = (KernelError, SetupError, WaitTimeoutError)


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """Turn what people can mend into one sentence and exit code 1."""

    @wraps(command)
    def run(*args: Any, **options: Any) -> None:
        try:
            command(*args, **options)
        except EXPECTED_ERRORS as fault:
            hint = STORE_HINT if isinstance(fault, StoreDownError) else ""
            kind = type(fault).__name__
            fail(f"{fault}{hint}", as_json=bool(options.get("as_json")), kind=kind)

    return run


def fail(sentence: str, *, as_json: bool, kind: str) -> NoReturn:
    """Say what is wrong, on stderr or as JSON, and end with 1."""
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


def client(actor: str = "person") -> Client:
    """Open the client on the store that the settings name, or that `up` keeps here."""
    return Client(local_settings(), actor=actor)


def answer_flag(record_id: str, word: str, *, as_json: bool) -> None:
    """Print what became of a flag. Ends with 1 where there was nothing to do it to."""
    answer({"id": record_id, "answer": word}, as_json=as_json, show=screen.record_answer)
    if word in ("ended", "nothing"):
        raise typer.Exit(1)


def confirm_proposal(here: Client, record_id: str, choice: str, *, as_json: bool) -> str:
    """Show the card to who decides, and return the proposal that was seen."""
    card = here.card(record_id)
    seen = card.proposal if card else here.show(record_id).proposal
    if card is None or as_json or not sys.stdin.isatty():
        if card is not None:
            sentence = f"name the proposal that you saw: --proposal {seen} is the current one"
            fail(sentence, as_json=as_json, kind="UsageError")
        return seen
    screen.cards([card.as_data()])
    typer.confirm(f"{choice}?", abort=True)
    return seen
