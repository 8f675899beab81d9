"""What a command opens, prints and refuses: JSON for programs, tables and sentences for people."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar, overload

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
from interlock.workers.terminal.page import Part
from interlock.workers.terminal.page_parts import plain_answer, record_state
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
CommandFunction = Callable[..., None]
PANELS = "help_panels"  # the attribute of a command with the heading of each option


@dataclass(frozen=True, slots=True)
class Shell:
    """Opens the client of a command and prints its answer, as its `--as` and `--json` say.

    `actor` is the name for the log, `as_json` says whether a program reads what is printed.
    """

    actor: str = "person"
    as_json: bool = False

    @property
    def host(self) -> str:
        """The name of this computer, as the settings have it, or the `up` that runs here."""
        return settings_here().host

    @property
    def program(self) -> str:
        """How a shell of any folder starts this command line, for a command that is printed."""
        return screen.program()

    def client(self, actor: str | None = None) -> Client:
        """Open the client on the store that the settings name, or that `up` started here.

        It acts as `actor`, by default as the actor of the command. Raises SettingsError where the
        settings name an API.
        """
        if settings_here().api_url is not None:
            raise SettingsError(
                "this command needs the store itself: unset INTERLOCK_API_URL for it"
            )
        opened = Client(local_settings(), actor=self.actor if actor is None else actor)
        opened.dispatch.greet()
        return opened

    def api(self, actor: str | None = None) -> HttpClient | None:
        """Open the client of the API that the settings name. None if they name no API."""
        settings = settings_here()
        if settings.api_url is None:
            return None
        # Most commands do without it, and it takes long to import.
        from interlock.workers.remote.client import HttpClient  # noqa: PLC0415

        return HttpClient(
            settings.api_url, settings.api_token or "", actor=self.actor if actor is None else actor
        )

    def caller(self, actor: str | None = None) -> Client | HttpClient:
        """Open the client of the API that the settings name, or else the one on the store.

        Who shows an access token acts under the name of its holder.
        """
        return self.api(actor) or self.client(actor)

    def answer(
        self,
        value: Any,
        *,
        show: Callable[[Any], Iterable[Part]] = plain_answer,
        now_ms: int | None = None,
    ) -> None:
        """Print a value for a program, or for a person: as the page that `show` makes of it.

        The value is data of JSON, such as `[asdict(row) for row in rows]`; what JSON has no form
        for is printed as text. Without `show`, an `id` with its `answer` is one line, rows with
        `id`, `replayed` and `error` are what became of each submission, and of any other mapping
        each field is shown. Times are counted from `now_ms` on, and without it have their dates.
        """
        if self.as_json:
            typer.echo(visible_json(value))
        else:
            PagePrinter(now_ms).print(show(visible_data(value)))

    def answer_record(self, record: Record, *, outlook: str = "", **more: Any) -> None:
        """Print the id of a record and its state, and what follows by itself.

        Programs get the fields of `more` too. Give `id` where people know the record by another
        name.
        """
        said = {"outlook": outlook} if outlook else {}
        value = {"id": record.id, "state": record.state, **said, **more}
        self.answer(value, show=partial(record_state, record=record))

    def answer_flag(self, record_id: str, status: str) -> None:
        """Print what a pause, resume or retry came to. Exit with 1 if it had nothing to act on."""
        unchanged = status == "already" and not self.as_json
        said = "nothing changed: it is so already" if unchanged else status
        self.answer({"id": record_id, "answer": said})
        if status in ("ended", "nothing"):
            raise typer.Exit(1)

    def first(
        self,
        rows: Sequence[Row],
        limit: int,
        order: str,
        *,
        total: Callable[[], str] | None = None,
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

    def print(self, text: str, *, err: bool = False) -> None:
        """Print an agent's output, or a diff. It cannot move the cursor; a tab becomes spaces."""
        typer.echo(visible(text.expandtabs()), nl=False, err=err)

    def error(self, sentence: str) -> None:
        """Print an error on stderr; a program reads it in the answer instead."""
        if not self.as_json:
            screen.error(sentence)

    def fail(self, sentence: str, *, kind: str = "UsageError") -> NoReturn:
        """Print an error, on stderr or as JSON with its kind, and exit with code 1."""
        if self.as_json:
            typer.echo(visible_json({"error": kind, "message": sentence}))
        else:
            screen.error(sentence)
        raise typer.Exit(1)

    def confirm(self, choice: str) -> None:
        """Ask a person who has seen what is decided whether to do it. End the command on a no."""
        typer.confirm(f"{choice}?", abort=True)

    def json_object(self, text: str, name: str) -> dict[str, Any]:
        """Return the JSON object that a person has written. Ends the command where it is none."""
        try:
            value = json.loads(text)
        except ValueError as refusal:
            self.fail(f"{name} is not JSON: {refusal}")
        if not isinstance(value, dict):
            self.fail(f"{name} must be a JSON object")
        return value

    def asked_answer(
        self,
        interlock: Client | HttpClient,
        record_id: str,
        choice: str,
        fields: Mapping[str, Any],
        proposal: str | None,
    ) -> tuple[str, dict[str, Any]]:
        """Return the proposal that a person answers, and the fields of the answer.

        A person who names no proposal is shown the card, and asked for the fields that the choice
        takes if none are given, or else for a confirmation. Ends the command where nobody can be
        asked. Raises CallError, before the person is asked, if cards are open and none takes this
        choice.
        """
        card = card_with(interlock, record_id, choice)
        if card is None:
            return proposal or interlock.show(record_id).proposal, dict(fields)
        if not proposal:
            interlock.check_choice(record_id, choice)
            self._show_card(card)
        typed = {} if fields else self.missing_answer(card, choice)
        if not proposal and not typed:
            self.confirm(choice)
        return proposal or card.proposal, {**fields, **typed}

    def _show_card(self, card: Card) -> None:
        """Show a card at a terminal. End the command elsewhere: the proposal has to be named."""
        if self.as_json or not sys.stdin.isatty():
            current = f"--proposal {card.proposal} is the current one"
            self.fail(f"name the proposal that you saw: {current}")
        self.answer([card.as_data()], show=cards)

    def missing_answer(self, card: Card, choice: str) -> dict[str, Any]:
        """Ask at a terminal for the fields that a choice takes, and return them; elsewhere {}.

        Ends the command where it cannot ask, and the choice is refused without them.
        """
        schema = next((offer.schema for offer in card.affordances if offer.name == choice), {})
        example = example_answer(choice, schema, card.proposed) if schema else {}
        if not example:
            return {}
        needed = needs_answer(schema)
        if self.as_json or not sys.stdin.isatty():
            if needed:
                flags = answer_flags(choice, example)
                self.fail(f"{choice} needs an answer by --text or --answer, for example{flags}")
            return {}
        field = text_field(choice)
        if field in schema["properties"] and {field}.issuperset(schema.get("required", ())):
            default = None if needed else ""
            text = typer.prompt(f"{choice}, in words", default=default, show_default=False)
            return {field: text} if text else {}
        example_json = visible_json(example)
        return self.json_object(typer.prompt(f"{choice}, as JSON", default=example_json), choice)


@overload
def guarded(command: CommandFunction, /) -> CommandFunction: ...


@overload
def guarded(
    *, actor: str | None = None, has_json: bool = True, panels: Mapping[str, str] | None = None
) -> Callable[[CommandFunction], CommandFunction]: ...


def guarded(
    command: CommandFunction | None = None,
    /,
    *,
    actor: str | None = None,
    has_json: bool = True,
    panels: Mapping[str, str] | None = None,
) -> CommandFunction | Callable[[CommandFunction], CommandFunction]:
    """Make a function the callback of a command, whose expected errors are printed as sentences.

    A function whose first parameter is `shell: Shell` is given one, and its command has the
    option `--json`, unless `has_json=False`. `actor` gives the command `--as` too, with that
    default: it changes something, so it is a span, and a name that no token proves is noticed.
    A function may declare `as_json` or `actor` itself instead, with the same effect.
    `panels` has the headings of its help, each with the names of options. Of an error that the user
    can correct, a sentence is printed, and the exit code is 1.
    """
    if command is None:
        return partial(_guarded, actor=actor, has_json=has_json, panels=panels or {})
    return _guarded(command, actor=actor, has_json=has_json, panels=panels or {})


def _guarded(
    command: CommandFunction, *, actor: str | None, has_json: bool, panels: Mapping[str, str]
) -> CommandFunction:
    written = signature(command, eval_str=True)
    parameters = list(written.parameters.values())
    takes_shell = bool(parameters) and parameters[0].annotation is Shell
    if takes_shell:
        parameters[:1] = []
        parameters += [_option("as_json", AsJson, default=False)] if has_json else []
        parameters += [_option("actor", Actor, default=actor)] if actor else []
    named = {each.name: each for each in parameters}
    added = named.keys() - written.parameters.keys()
    default = named["actor"].default if "actor" in named else ""

    @wraps(command)
    def run(**options: Any) -> None:
        claimed = options.get("actor", default)
        # A function that declares such an option itself is given it.
        said: dict[str, Any] = {"as_json": bool(options.get("as_json"))}
        shell = Shell(**said | {name: options.pop(name) for name in added & options.keys()})
        given = (shell,) if takes_shell else ()
        try:
            if named.keys() & {"actor", "owner", "token"}:
                with traced_command(command_name(), read_settings(is_final=False)):
                    command(*given, **options)
            else:
                command(*given, **options)
            if claimed != default:
                notice_claim(claimed)
        except EXPECTED_ERRORS as error:
            shell.fail(str(error), kind=type(error).__name__)
        except OSError as refusal:
            # Of a file, such as a home that cannot be written; any other is a fault of ours.
            if refusal.filename is None:
                raise
            sentence = f"{os.fsdecode(refusal.filename)}: {refusal.strerror}"
            shell.fail(sentence, kind=type(refusal).__name__)

    # Typer reads the parameters of a command from its signature.
    made: Any = run
    made.__signature__ = written.replace(parameters=parameters)
    headed = {name: panel for panel, names in panels.items() for name in names.split()}
    setattr(made, PANELS, headed)
    return run


def _option(name: str, annotation: Any, *, default: Any) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


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


def card_with(interlock: Client | HttpClient, record_id: str, choice: str) -> Card | None:
    """Return the card of a record that offers a choice; if none does, its first card, if any."""
    found = interlock.cards_of(record_id)
    offering = (card for card in found if choice in [each.name for each in card.affordances])
    return next(offering, found[0] if found else None)
