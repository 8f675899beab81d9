"""The command line `interlock`: the commands of operators and of every system."""

from __future__ import annotations

import json
import os
import sys
from functools import cache
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException
from typer.main import get_command

from interlock.workers.engine.own_systems import add_systems
from interlock.workers.engine.system import CommandRow, Panel, SystemsError, load
from interlock.workers.specs.module import names_in
from interlock.workers.systems import command_rows

OPS, TOP = "interlock.workers.ops.cli", "interlock.workers.ops.top.cli"
CONSOLE, SUPERVISION = "interlock.workers.console.cli", "interlock.workers.supervision.cli"
ACCESS, MCP = "interlock.workers.access.cli", "interlock.workers.mcp.cli"
OF_OPERATORS = (
    CommandRow(
        "up", f"{OPS}:up", Panel.START, "Start store, workers, console and Flower, until Ctrl-C."
    ),
    CommandRow("demo", f"{OPS}:demo", Panel.START, "Run 15 example requests from start to end."),
    CommandRow(
        "serve",
        f"{CONSOLE}:serve",
        Panel.OPERATE,
        "Serve the console and the HTTP API until Ctrl-C.",
    ),
    CommandRow(
        "console", f"{CONSOLE}:console", Panel.START, "Print a link that opens the console."
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
    CommandRow("top", f"{TOP}:top", Panel.LOOK, "Watch agents, tasks and queues."),
    CommandRow("events", f"{OPS}:events", Panel.LOOK, "Export transitions as lines of JSON."),
    CommandRow("machines", f"{OPS}:machines", Panel.LOOK, "Print the table of every machine."),
    CommandRow("capabilities", f"{OPS}:capabilities", Panel.LOOK, "List what threads can do."),
    CommandRow("explain", f"{OPS}:explain", Panel.LOOK, "Show what an answer would do."),
    CommandRow(
        "rejected",
        "interlock.workers.ops.rejected_cli:app",
        Panel.OPERATE,
        "Messages that nobody could act on: look at them, and try them again.",
    ),
    CommandRow("metrics", f"{OPS}:metrics", Panel.OPERATE, "Print metrics, for Prometheus."),
    CommandRow("doctor", f"{OPS}:doctor", Panel.OPERATE, "Check store, workers and queues."),
    CommandRow("cancel", f"{OPS}:cancel", Panel.OPERATE, "End a record."),
    CommandRow("fire", f"{OPS}:fire", Panel.OPERATE, "Fire a trigger at a record."),
    CommandRow("pause", f"{OPS}:pause", Panel.OPERATE, "Start no new effect on a record."),
    CommandRow("resume", f"{OPS}:resume", Panel.OPERATE, "Resume a paused record."),
    CommandRow("retry", f"{OPS}:retry", Panel.OPERATE, "Try failed effects again now."),
    CommandRow("verify", f"{OPS}:verify", Panel.OPERATE, "Compare records with their logs."),
    CommandRow("report", f"{SUPERVISION}:report", Panel.AGENTS, "Report on the work of an agent."),
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


@cache
def loaded(name: str) -> Any:
    """Import a command, or the modules of a group, and return it."""
    app = typer.Typer(help=help_of(name), no_args_is_help=True, add_completion=False)
    for source in [load(row.source) for row in commands() if row.name == name]:
        if isinstance(source, typer.Typer):
            app.add_typer(source)
        else:
            app.command(name)(source)
    command = get_command(app)
    command.name = name
    name_types(command)
    return command


def name_types(command: Any) -> None:
    """Let the help of a repeatable option show what one value of it is, not a type of Python."""
    for inner in getattr(command, "commands", {}).values():
        name_types(inner)
    for option in command.params:
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
        add_systems(names_in(os.environ.get("INTERLOCK_SYSTEMS", "")), root)
        run()
    except SystemsError as refusal:
        if "--json" in sys.argv:
            typer.echo(json.dumps({"error": "SystemsError", "message": str(refusal)}))
        else:
            typer.echo(f"error {refusal}", err=True)
        sys.exit(1)


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
