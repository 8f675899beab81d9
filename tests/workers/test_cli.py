"""A command and a worker import what they use, and the command line lists what it can run."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from interlock.workers.cli import commands, loaded
from interlock.workers.config import environment_without_settings
from interlock.workers.engine.system import Panel
from interlock.workers.gateways.server import EmbeddedServer

RUN = """
import sys
from interlock.__main__ import main

try:
    main()
except SystemExit as end:
    assert not end.code, end.code
"""
START_A_WORKER = """
import sys
from interlock.workers.config import read_settings
from interlock.workers.main import app
from interlock.workers.systems import openers

assert all(opener(read_settings()) or True for opener in openers())
"""
PRINT_MODULES = "\nimport os; os.write(2, ' '.join(sys.modules).encode())"
OF_MODELS = {"pydantic_ai", "openai", "httpx2", "genai_prices", "mcp", "anthropic"}
OF_WORKERS = OF_MODELS | {"celery", "kombu", "flower", "jsonschema", "tenacity", "numpy"}
SLOW = {"typing", "subprocess", "pathlib", "dataclasses", "inspect", "logging"}
OF_THE_STORE = {"redis", "hiredis", "pydantic", "asyncio"}


def imported(
    program: str, *arguments: str, python: Sequence[str] = (), **environment: str
) -> set[str]:
    """Run a program, with these options of Python, and return the packages that it imported."""
    done = subprocess.run(
        [sys.executable, *python, "-c", program + PRINT_MODULES, *arguments],
        cwd=Path(__file__).parents[2],
        env=environment_without_settings() | environment,
        check=True,
        capture_output=True,
        text=True,
    )
    return {name.partition(".")[0] for name in done.stderr.split()}


def test_the_help_imports_neither_store_nor_workers() -> None:
    assert not imported(RUN, "--help") & (OF_THE_STORE | OF_WORKERS)


def test_a_command_that_reads_imports_nothing_of_workers(
    server: EmbeddedServer, prefix: str, tmp_path: Path
) -> None:
    found = imported(
        RUN,
        "list",
        INTERLOCK_STORE_URL=server.url,
        INTERLOCK_PREFIX=prefix,
        INTERLOCK_HOME=str(tmp_path),
    )

    assert "redis" in found
    assert not found & OF_WORKERS


def test_a_worker_with_the_default_model_and_a_listed_server_imports_no_model_and_no_mcp() -> None:
    found = imported(
        START_A_WORKER,
        INTERLOCK_STORE_URL="redis://127.0.0.1:9/0",
        INTERLOCK_CAPABILITIES="examples/capabilities.toml",
    )

    assert {"celery", "examples"} <= found
    assert not found & OF_MODELS


@pytest.mark.parametrize("program", ["agent.watchdog", "bound_command"])
def test_a_program_that_each_command_of_an_agent_or_job_waits_for_imports_no_slow_module(
    program: str,
) -> None:
    path = f"import sys; sys.path.insert(0, {str(Path(__file__).parents[2])!r})\n"
    found = imported(path + f"import interlock.workers.processes.{program}", python=["-I", "-S"])

    assert "interlock" in found
    assert not found & SLOW


def test_the_api_imports_the_library_of_mcp_at_the_first_call_only() -> None:
    found = imported("import sys, interlock.workers.console.app")

    assert "fastapi" in found
    assert "mcp" not in found


@pytest.mark.parametrize("name", sorted({row.name for row in commands()}))
def test_a_command_is_listed_by_its_row_and_loaded_by_its_name(name: str) -> None:
    command = loaded(name)

    assert command.name == name
    assert command.get_short_help_str()


def commands_of(command: Any) -> Iterator[Any]:
    """Yield a command, and those of a group with all below them."""
    yield command
    for inner in getattr(command, "commands", {}).values():
        yield from commands_of(inner)


def test_the_help_of_a_repeatable_option_shows_no_type_of_python() -> None:
    found = [
        (command.name, option.name, option.metavar)
        for name in sorted({row.name for row in commands()})
        for command in commands_of(loaded(name))
        for option in command.params
        if getattr(option, "multiple", False)
    ]

    assert ("submit", "verify", "TEXT") in found
    assert [option for option in found if not option[2]] == []


def test_every_panel_of_the_help_has_a_command() -> None:
    assert {row.panel for row in commands()} == set(Panel)
