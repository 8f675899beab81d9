"""A command and a worker import what they use, and the command line lists what it can run."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interlock.workers.cli import commands, loaded
from interlock.workers.config import environment_without_settings
from interlock.workers.engine.system import Panel
from interlock.workers.gateways.server import EmbeddedServer

ROOT = Path(__file__).parents[2]
# Each of these steps may import more than those before it, so one process goes through all.
STEPS = """
import json, os, sys
from interlock.__main__ import main

def note():
    packages = sorted({name.partition(".")[0] for name in sys.modules})
    os.write(2, json.dumps(packages).encode() + b"\\n")

def run(*arguments):
    sys.argv = ["interlock", *arguments]
    try:
        main()
    except SystemExit as end:
        assert not end.code, end.code
    note()

run("--help")
run("list")

from interlock.workers.config import read_settings
from interlock.workers.main import app, load_capabilities
from interlock.workers.systems import openers

assert all(opener(read_settings()) or True for opener in openers())
load_capabilities(app.dispatch)
note()

import interlock.workers.console.app
note()
"""
OF_MODELS = {"pydantic_ai", "openai", "httpx2", "genai_prices", "mcp", "anthropic"}
OF_WORKERS = OF_MODELS | {"celery", "kombu", "flower", "jsonschema", "tenacity", "numpy"}
SLOW = {
    *("typing", "subprocess", "pathlib", "dataclasses", "inspect", "logging"),
    *("contextlib", "enum", "json", "re", "signal"),
}
OF_THE_STORE = {"redis", "hiredis", "pydantic", "asyncio"}


def test_no_process_imports_what_it_does_not_use(
    server: EmbeddedServer, prefix: str, tmp_path: Path
) -> None:
    settings = {
        "STORE_URL": server.url,
        "PREFIX": prefix,
        "HOME": str(tmp_path),
        "CAPABILITIES": "examples/capabilities.toml",
    }
    done = subprocess.run(
        [sys.executable, "-c", STEPS],
        cwd=ROOT,
        env=environment_without_settings()
        | {f"INTERLOCK_{name}": value for name, value in settings.items()},
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    imported = [set(json.loads(line)) for line in done.stderr.splitlines()]
    after_the_help, after_a_command_that_reads, after_a_worker, after_the_api = imported

    assert not after_the_help & (OF_THE_STORE | OF_WORKERS)
    assert "redis" in after_a_command_that_reads
    assert not after_a_command_that_reads & OF_WORKERS
    assert {"celery", "examples"} <= after_a_worker, "it offers the tools of a listed server"
    assert not after_a_worker & OF_MODELS, "its model is the default one, and no tool is called"
    assert "fastapi" in after_the_api
    assert "mcp" not in after_the_api, "it imports that library at the first call"


@pytest.mark.parametrize("program", ["agent.watchdog", "bound_command"])
def test_a_program_that_each_command_of_an_agent_or_job_waits_for_imports_no_slow_module(
    program: str,
) -> None:
    path = f"import sys; sys.path.insert(0, {str(ROOT)!r})"
    load = f"{path}; import interlock.workers.processes.{program}; print(*sys.modules)"
    found = subprocess.check_output([sys.executable, "-I", "-S", "-c", load], text=True).split()

    assert f"interlock.workers.processes.{program}" in found
    assert not SLOW & {*found}


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


@pytest.mark.parametrize("name", sorted({row.name for row in commands()}))
def test_options_of_a_command_with_many_stand_below_headings(name: str) -> None:
    command: Any = loaded(name)
    for each in (getattr(command, "commands", None) or {name: command}).values():
        options = [one for one in each.params if one.param_type_name == "option"]
        headings = {one.name for one in options if one.rich_help_panel}
        assert len(options) - len(headings) <= 11, each.name
        assert {*getattr(each.callback, "help_panels", ())} & {
            one.name for one in options
        } == headings


def test_every_panel_of_the_help_has_a_command() -> None:
    assert {row.panel for row in commands()} == set(Panel)


def test_a_command_and_a_group_of_one_name_are_told_apart_by_the_first_word() -> None:
    group = loaded("plan")

    def chosen(*words: str) -> str:
        context = group.make_context("plan", [*words], resilient_parsing=True)
        return str(group.resolve_command(context, [*context._protected_args, *context.args])[0])

    assert chosen("refund.py") == chosen() == chosen("--json") == "plan"
    assert chosen("check", "plan.yaml") == "check"
