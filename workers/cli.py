"""The command line `interlock`: it mounts the commands of operators and of every system."""

from __future__ import annotations

import json
import sys
from importlib.metadata import version as installed_version

import typer
from typer.exceptions import TyperException

from interlock.workers.engine.system import load
from interlock.workers.ops.cli import app as ops_app
from interlock.workers.ops.top.cli import top
from interlock.workers.supervision.cli import report
from interlock.workers.systems import SYSTEMS
from interlock.workers.terminal.answer import AsJson, answer


def assemble() -> typer.Typer:
    """Return the command line. Modules that name the same group share it."""
    command_line = typer.Typer(
        name="interlock",
        help="Run long work of AI agents and people, and resume it after a crash.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        add_completion=False,
    )
    command_line.add_typer(ops_app)
    groups: dict[str, list[typer.Typer]] = {}
    for system in SYSTEMS:
        for name, module in system.commands.items():
            groups.setdefault(name, []).append(load(f"{module}:app"))
    for name, parts in groups.items():
        group = typer.Typer(no_args_is_help=True) if name else command_line
        for part in parts:
            group.add_typer(part)
        if name:
            texts = [part.info.help for part in parts if isinstance(part.info.help, str)]
            command_line.add_typer(group, name=name, help=texts[0] if texts else None)
    command_line.command()(report)
    command_line.command()(top)
    command_line.command()(version)
    return command_line


def version(as_json: AsJson = False) -> None:
    """Print the version."""
    value = {"interlock": installed_version("interlock"), "python": sys.version.split()[0]}
    answer(value, as_json=as_json, show=lambda v: typer.echo(f"interlock {v['interlock']}"))


app = assemble()


def main() -> None:
    """Run the command line. A usage error exits with code 2 and is printed as JSON with --json."""
    if "--json" not in sys.argv:
        app()
    try:
        sys.exit(app(standalone_mode=False))
    except TyperException as refusal:
        message = {"error": "UsageError", "message": refusal.format_message()}
        typer.echo(json.dumps(message))
        sys.exit(refusal.exit_code)
