"""Prints what commands return and refuse: JSON for programs, tables and sentences for people."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from inspect import signature
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar

import typer
from typer._click.globals import get_current_context  # typer has no public way to it

from interlock.kernel.errors import KernelError
from interlock.kernel.record import Record
from interlock.workers.client import Client
from interlock.workers.config import (
    SettingsError,
    SetupError,
    read_settings,
)
from interlock.workers.engine.answer_commands import (
    answer_flags,
    example_answer,
    needs_answer,
    text_field,
)
from interlock.workers.engine.card import Card
from interlock.workers.engine.polling import WaitTimeoutError
from interlock.workers.engine.system import SystemsError
from interlock.workers.engine.tracing import traced_command
from interlock.workers.terminal import screen
from interlock.workers.terminal.cards import cards
from interlock.workers.terminal.page import Page
from interlock.workers.terminal.page_parts import record_answer, record_state
from interlock.workers.terminal.printed_page import PagePrinter
from interlock.workers.text import visible, visible_data, visible_json, visible_line
from interlock.workers.up_file import local_settings, settings_here

if TYPE_CHECKING:  # imported where it is opened
    from interlock.workers.remote.client import HttpClient

Id = Annotated[str, typer.Argument(help="A record's id.", metavar="ID")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Actor = Annotated[
    str,
    typer.Option("--as", help="The name for the log. It is only claimed: a token would prove it."),
]
Reason = Annotated[str, typer.Option("--reason", help="Why; the log keeps it.")]
Tagged = Annotated[
    list[str] | None,
    typer.Option("--tag", help="A word by which people find its cards. Repeatable."),
]
Row = TypeVar("Row")
EXPECTED_ERRORS = (KernelError, SetupError, SystemsError, WaitTimeoutError)


HELP_PANELS = "help_panels"  # the attribute of a command with the heading of each option
C = TypeVar("C", bound=Callable[..., None])


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """Print an error that the user can correct as one sentence, and exit with code 1.

    A command that changes something is a span: it has a parameter `actor`, or the `owner` or
    `token` of a claim. If --as names somebody, it says after the act that no token proves the name.
    """

    @wraps(command)
    def run(*args: Any, **options: Any) -> None:
        parameters = signature(run).parameters
        try:
            if parameters.keys() & {"actor", "owner", "token"}:
                with traced_command(command_name(), read_settings()):
                    command(*args, **options)
            else:
                command(*args, **options)
            actor = parameters.get("actor")
            if actor and options.get("actor", actor.default) != actor.default:
                notice_claim(options["actor"])
        except EXPECTED_ERRORS as error:
            fail(str(error), as_json=bool(options.get("as_json")), kind=type(error).__name__)
        except OSError as refusal:
            # Of a file, such as a home that cannot be written; any other is a fault of ours.
            if refusal.filename is None:
                raise
            sentence = f"{os.fsdecode(refusal.filename)}: {refusal.strerror}"
            fail(sentence, as_json=bool(options.get("as_json")), kind=type(refusal).__name__)

    return run


def grouped(panels: Mapping[str, str]) -> Callable[[C], C]:
    """Let the help of a command show its options below headings, each with the names of some."""

    def mark(command: C) -> C:
        of_option = {name: panel for panel, names in panels.items() for name in names.split()}
        setattr(command, HELP_PANELS, of_option)
        return command

    return mark


def command_name() -> str:
    """Return the command that runs, as in `interlock task cancel`, however it was started."""
    context = get_current_context()
    started_as = str(context.find_root().info_name)
    return f"interlock{context.command_path.removeprefix(started_as)}"


def notice_claim(actor: str) -> None:
    """Say on stderr that the name for the log is only claimed, if no access token is shown."""
    settings = settings_here()
    if settings.api_url is None or not settings.api_token:
        screen.notice(f"the name {visible_line(actor)} is only claimed: no token proves it")


def fail(sentence: str, *, as_json: bool, kind: str) -> NoReturn:
    """Print an error, on stderr or as JSON, and exit with code 1."""
    if as_json:
        typer.echo(visible_json({"error": kind, "message": sentence}))
    else:
        screen.error(sentence)
    raise typer.Exit(1)


def answer(
    value: Any, *, as_json: bool, show: Callable[[Any], Page], now_ms: int | None = None
) -> None:
    """Print a value for a program, or for a person: as the page that `show` makes of it.

    The value is data of JSON: whatever else is in it, a program gets as text.
    Its times are told from `now_ms` on, and without it by their dates.
    """
    if as_json:
        typer.echo(visible_json(value))
    else:
        PagePrinter(now_ms).print(show(visible_data(value)))


def listed(
    rows: Sequence[Row], limit: int, order: str, *, total: Callable[[], str] | None = None
) -> list[Row]:
    """Return the first rows of a list, and say on stderr if that leaves some out.

    `rows` has one more than `limit` where there are more; `order` says which come first, and
    `total` how many there are, where that is known.
    """
    if len(rows) > limit:
        how_many = f"{limit:,} of {total()}" if total else f"only {limit:,}"
        more = "" if total else ", and there are more"
        typer.echo(f"{how_many} are listed, {order}{more}: --limit lists more", err=True)
    return list(rows[:limit])


def echo_output(text: str, *, err: bool = False) -> None:
    """Print an agent's output, or a diff. It cannot move the cursor; a tab becomes spaces."""
    typer.echo(visible(text.expandtabs()), nl=False, err=err)


def answer_record(record: Record, *, as_json: bool, outlook: str = "", **more: Any) -> None:
    """Print the id of a record and its state, and what follows by itself.

    Programs get the fields of `more` too; an `id` is by what people know the record.
    """
    said = {"outlook": outlook} if outlook else {}
    value = {"id": record.id, "state": record.state, **said, **more}
    answer(value, as_json=as_json, show=partial(record_state, record=record))


def caller(actor: str = "person") -> Client | HttpClient:
    """Open the client of the API that the settings name, or else the one on the store.

    Who shows an access token acts under the name of its holder.
    """
    return api_client(actor) or client(actor)


def api_client(actor: str = "person") -> HttpClient | None:
    """Open the client of the API that the settings name. None if they name no API."""
    settings = settings_here()
    if settings.api_url is None:
        return None
    # Most commands do without it, and it takes long to import.
    from interlock.workers.remote.client import HttpClient  # noqa: PLC0415

    return HttpClient(settings.api_url, settings.api_token or "", actor=actor)


def client(actor: str = "person") -> Client:
    """Open the client on the store that the settings name, or on the one that `up` started here."""
    if settings_here().api_url is not None:
        raise SettingsError("this command needs the store itself: unset INTERLOCK_API_URL for it")
    opened = Client(local_settings(), actor=actor)
    opened.dispatch.greet()
    return opened


def answer_flag(record_id: str, status: str, *, as_json: bool) -> None:
    """Print what a pause, resume or retry came to. Exit with code 1 if it had nothing to act on."""
    said = "nothing changed: it is so already" if status == "already" and not as_json else status
    answer({"id": record_id, "answer": said}, as_json=as_json, show=record_answer)
    if status in ("ended", "nothing"):
        raise typer.Exit(1)


def asked_answer(
    interlock: Client | HttpClient,
    record_id: str,
    choice: str,
    fields: Mapping[str, Any],
    proposal: str | None,
    *,
    as_json: bool,
) -> tuple[str, dict[str, Any]]:
    """Return the proposal that a person answers, and the fields of the answer.

    A person who names no proposal is shown the card, and asked for the fields that the choice takes
    if none are given, or else for a confirmation. Ends the command where nobody can be asked.
    Raises CallError, before the person is asked, if cards are open and none takes this choice.
    """
    card = card_with(interlock, record_id, choice)
    if card is None:
        return proposal or interlock.show(record_id).proposal, dict(fields)
    if not proposal:
        interlock.check_choice(record_id, choice)
        show_at_terminal(card, as_json=as_json)
    typed = {} if fields else missing_answer(card, choice, as_json=as_json)
    if not proposal and not typed:
        confirm(choice)
    return proposal or card.proposal, {**fields, **typed}


def confirm(choice: str) -> None:
    """Ask a person who has seen what is decided whether to do it. Ends the command after a no."""
    typer.confirm(f"{choice}?", abort=True)


def card_with(interlock: Client | HttpClient, record_id: str, choice: str) -> Card | None:
    """Return the card of a record that offers a choice; if none does, its first card, if any."""
    found = interlock.cards_of(record_id)
    offering = (card for card in found if choice in [each.name for each in card.affordances])
    return next(offering, found[0] if found else None)


def show_at_terminal(card: Card, *, as_json: bool) -> None:
    """Show a card at a terminal. Ends the command elsewhere: the proposal has to be named there."""
    if as_json or not sys.stdin.isatty():
        sentence = f"name the proposal that you saw: --proposal {card.proposal} is the current one"
        fail(sentence, as_json=as_json, kind="UsageError")
    answer([card.as_data()], as_json=False, show=cards)


def missing_answer(card: Card, choice: str, *, as_json: bool) -> dict[str, Any]:
    """Ask at a terminal for the fields that a choice takes, and return them; elsewhere {}.

    Ends the command where it cannot ask, and the choice is refused without them.
    """
    schema = next((offer.schema for offer in card.affordances if offer.name == choice), {})
    example = example_answer(choice, schema, card.proposed) if schema else {}
    if not example:
        return {}
    needed = needs_answer(schema)
    if as_json or not sys.stdin.isatty():
        if needed:
            flags = answer_flags(choice, example)
            sentence = f"{choice} needs an answer by --text or --answer, for example{flags}"
            fail(sentence, as_json=as_json, kind="UsageError")
        return {}
    field = text_field(choice)
    if field in schema["properties"] and {field}.issuperset(schema.get("required", ())):
        default = None if needed else ""
        text = typer.prompt(f"{choice}, in words", default=default, show_default=False)
        return {field: text} if text else {}
    return json_object(typer.prompt(f"{choice}, as JSON", default=visible_json(example)), choice)


def json_object(text: str, name: str, *, as_json: bool = False) -> dict[str, Any]:
    """Return the JSON object that a person has written. Ends the command where it is none."""
    try:
        value = json.loads(text)
    except ValueError as refusal:
        fail(f"{name} is not JSON: {refusal}", as_json=as_json, kind="UsageError")
    if not isinstance(value, dict):
        fail(f"{name} must be a JSON object", as_json=as_json, kind="UsageError")
    return value
