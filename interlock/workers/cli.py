"""The command line `interlock`: the commands of operators and of every system."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException
from typer.main import get_command

from interlock.extras import needed
from interlock.systems import NAMES
from interlock.workers.engine.own_systems import add_systems, add_systems_of
from interlock.workers.engine.system import CommandRow, Panel, SystemsError, load
from interlock.workers.specs.module import names_in
from interlock.workers.systems import command_rows

OPS, TOP = "interlock.workers.ops.cli", "interlock.workers.ops.top.cli"
CONSOLE, SUPERVISION = "interlock.workers.console.cli", "interlock.workers.supervision.cli"
ACCESS, MCP = "interlock.workers.access.cli", "interlock.workers.mcp.cli"
CARDS, TRIGGERS = "interlock.workers.ops.cards_cli", "interlock.workers.ops.trigger_cli"
OF_OPERATORS = (
    CommandRow(
        "up", f"{OPS}:up", Panel.START, "Start store, workers, console and Flower, until Ctrl-C."
    ),
    CommandRow(
        "serve",
        f"{CONSOLE}:serve",
        Panel.OPERATE,
        "Serve the console and the HTTP API until Ctrl-C.",
    ),
    CommandRow(
        "console", f"{CONSOLE}:console", Panel.START, "Print a link that opens the console."
    ),
    CommandRow("docs", f"{CONSOLE}:docs", Panel.START, "Print where the documentation is."),
    CommandRow(
        "remove",
        "interlock.workers.ops.remove_cli:remove",
        Panel.OPERATE,
        "Remove all files of a deployment.",
    ),
    CommandRow(
        "token",
        f"{ACCESS}:app",
        Panel.OPERATE,
        "Make, list and revoke access tokens for the HTTP API.",
    ),
    CommandRow("whoami", f"{ACCESS}:whoami", Panel.OPERATE, "Show under which name you act."),
    CommandRow("mcp", f"{MCP}:mcp", Panel.AGENTS, "Serve records as tools of agents."),
    CommandRow("list", f"{OPS}:list_records", Panel.LOOK, "List records with their states."),
    CommandRow("show", f"{OPS}:show", Panel.LOOK, "Show one record."),
    CommandRow("history", f"{OPS}:history", Panel.LOOK, "Show the whole log of a record."),
    CommandRow("top", f"{TOP}:top", Panel.LOOK, "Watch what is at work, and what waits."),
    CommandRow("events", f"{OPS}:events", Panel.LOOK, "Export transitions as lines of JSON."),
    CommandRow("machines", f"{OPS}:machines", Panel.LOOK, "Print the table of every machine."),
    CommandRow(
        "capabilities", f"{OPS}:capabilities", Panel.LOOK, "List what INTERLOCK_CAPABILITIES loads."
    ),
    CommandRow(
        "explain",
        f"{TRIGGERS}:explain",
        Panel.LOOK,
        "Show why a record waits and what would move it, or what one trigger would do.",
    ),
    CommandRow(
        "rejected",
        "interlock.workers.ops.rejected_cli:app",
        Panel.OPERATE,
        "Messages that nobody could act on: look at them, and try them again.",
    ),
    CommandRow("metrics", f"{OPS}:metrics", Panel.OPERATE, "Print metrics, for Prometheus."),
    CommandRow("doctor", f"{OPS}:doctor", Panel.OPERATE, "Check store, workers and queues."),
    CommandRow("cancel", f"{OPS}:cancel", Panel.OPERATE, "End a record."),
    CommandRow("fire", f"{TRIGGERS}:fire", Panel.OPERATE, "Fire a trigger at a record."),
    CommandRow("pause", f"{OPS}:pause", Panel.OPERATE, "Start no new effect on a record."),
    CommandRow("resume", f"{OPS}:resume", Panel.OPERATE, "Resume a paused record."),
    CommandRow("retry", f"{TRIGGERS}:retry", Panel.OPERATE, "Try failed effects again now."),
    CommandRow(
        "plan",
        "interlock.workers.ops.plan_cli:plan",
        Panel.OPERATE,
        "Show what changed tables mean for the records that there are.",
    ),
    CommandRow(
        "apply",
        "interlock.workers.ops.apply_cli:apply_tables",
        Panel.OPERATE,
        "Move records of older tables to those of this code.",
    ),
    CommandRow("verify", f"{OPS}:verify", Panel.OPERATE, "Compare records with their logs."),
    CommandRow("report", f"{SUPERVISION}:report", Panel.AGENTS, "Report on the work of an agent."),
    CommandRow("cards", f"{CARDS}:cards", Panel.DECIDE, "List the questions that wait."),
    CommandRow("decide", f"{CARDS}:decide", Panel.DECIDE, "Answer a card."),
)
REPEATABLE = "TEXT"


def commands() -> tuple[CommandRow, ...]:
    """Return every command. Raises SystemsError if two systems claim the same name."""
    return command_rows(OF_OPERATORS)


class LazyGroup(TyperGroup):
    """The commands, listed by their rows. The module of a command is imported when it is run."""

    def __init__(self, **options: Any) -> None:
        panels = list(Panel)
        rows = sorted(commands(), key=lambda row: panels.index(row.panel))
        listed = {
            row.name: TyperCommand(row.name, help=help_of(row.name), rich_help_panel=row.panel)
            for row in rows
        }
        super().__init__(**options | {"commands": listed})

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[Any, Any, list[str]]:
        """Return the command that was asked for, with its options."""
        name, _, rest = super().resolve_command(ctx, args)
        return name, name and loaded(name), rest


def help_of(name: str) -> str:
    """Return the help of a command; a group that several systems share has that of each."""
    return " ".join(row.help for row in commands() if row.name == name)


class DefaultGroup(TyperGroup):
    """A group that has a command of its own name, which is meant where no other one is named."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Name that command where the arguments begin with the name of none."""
        known = {*self.commands, *ctx.help_option_names}
        named = args[:1] and args[0] in known
        return super().parse_args(ctx, args if named else [str(self.name), *args])


@cache
def loaded(name: str) -> Any:
    """Import a command, or the modules of a group, and return it."""
    try:
        sources = [load(row.source) for row in commands() if row.name == name]
    except ModuleNotFoundError as missing:
        raise SystemsError(needed(f"`interlock {name}`", missing)) from missing
    groups = [source for source in sources if isinstance(source, typer.Typer)]
    kind = DefaultGroup if 0 < len(groups) < len(sources) else TyperGroup
    app = typer.Typer(cls=kind, help=help_of(name), no_args_is_help=True, add_completion=False)
    for source in sources:
        if isinstance(source, typer.Typer):
            app.add_typer(source)
        else:
            app.command(name)(source)
    command = get_command(app)
    command.name = name
    finish_help(command)
    return command


def finish_help(command: Any) -> None:
    """Let the help show options below their headings, and what one value of a repeatable one is."""
    for inner in getattr(command, "commands", {}).values():
        finish_help(inner)
    panels = getattr(command.callback, "help_panels", {})
    for option in command.params:
        if option.name in panels:
            option.rich_help_panel = panels[option.name]
        if getattr(option, "multiple", False) and option.metavar is None:
            option.metavar = REPEATABLE


def show_version(asked: bool) -> None:  # noqa: FBT001 - typer calls it with the option's value
    """Print the version, and end."""
    if asked:
        typer.echo(f"interlock {installed_version('interlock')}")
        raise typer.Exit


app = typer.Typer(
    name="interlock", cls=LazyGroup, no_args_is_help=True, pretty_exceptions_enable=False
)


@app.callback()
def interlock(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=show_version, is_eager=True),
    ] = False,
) -> None:
    """Run long work of AI agents and people, and resume it after a crash."""


def main() -> None:
    """Run the command line. A usage error exits with code 2 and is printed as JSON with --json."""
    try:
        # Only these settings are read here: the help does without the others.
        root = Path(os.environ.get("INTERLOCK_CAPABILITIES_ROOT", ""))
        named = names_in(os.environ.get("INTERLOCK_SYSTEMS", ""))
        add_systems(named or NAMES, root)
        if not named and sys.argv[1:2] not in [[row.name] for row in commands()]:
            add_those_of_up()
        run()
    except SystemsError as refusal:
        if "--json" in sys.argv:
            typer.echo(json.dumps({"error": "SystemsError", "message": str(refusal)}))
        else:
            typer.echo(f"error {refusal}", err=True)
        sys.exit(1)


def add_those_of_up() -> None:
    """Add the systems of the `interlock up` that runs here, which may have more commands."""
    if not Path(os.environ.get("INTERLOCK_HOME", ".interlock"), "up.json").exists():
        return
    # Imported here: otherwise the help does without the settings.
    up_file, config = (import_module(f"interlock.workers.{name}") for name in ("up_file", "config"))
    with suppress(config.SettingsError):  # the command that is run says it
        settings = up_file.settings_here()
        add_systems_of(settings)


def run() -> None:
    """Run the command that the arguments name."""
    if "--json" not in sys.argv:
        app()
    try:
        sys.exit(app(standalone_mode=False))
    except TyperException as refusal:
        message = {"error": "UsageError", "message": refusal.format_message()}
        typer.echo(json.dumps(message))
        sys.exit(refusal.exit_code)
