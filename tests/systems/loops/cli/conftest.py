"""Fixtures that run `interlock agent` as a person and as a program on a store with one worker."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from interlock.workers.cli import app
from interlock.workers.gateways.server import EmbeddedServer
from tests.git.scene import make_repository
from tests.races.in_process_worker import InProcessWorker
from tests.systems.jobs.test_graphs import stored
from tests.systems.loops.lives import InProcessAgents

Run = Callable[..., Any]
RunJson = Callable[..., Any]
RunText = Callable[..., str]
RunRefused = Callable[..., str]


@pytest.fixture
def agents(
    server: EmbeddedServer, prefix: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> InProcessAgents:
    """Return agents in the store that the environment names to the command line."""
    home = tmp_path / "home"
    for name, value in {
        "STORE_URL": server.url,
        "PREFIX": prefix,
        "NAMESPACE": prefix,
        "HOME": str(home),
    }.items():
        monkeypatch.setenv(f"INTERLOCK_{name}", value)
    monkeypatch.chdir(tmp_path)
    return InProcessAgents(InProcessWorker(server.url, prefix, home))


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repository")


@pytest.fixture
def run() -> Run:
    """Return a function that runs a command of `interlock agent`."""
    return lambda *arguments: CliRunner().invoke(app, ["agent", *map(str, arguments)])


@pytest.fixture
def run_json(run: Run) -> RunJson:
    """Return a function that runs a command with --json, which succeeds, and returns its value."""

    def succeed(*arguments: object) -> Any:
        result = run(*arguments, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    return succeed


@pytest.fixture
def run_text(run: Run) -> RunText:
    """Return a function that runs a command, which succeeds, and returns its text for people."""

    def read(*arguments: object) -> str:
        result = run(*arguments)
        assert result.exit_code == 0, result.output
        # A name that is given is said to be only claimed.
        assert bool(result.stderr) is ("--as" in arguments), result.stderr
        return " ".join(result.stdout.split())

    return read


@pytest.fixture
def run_refused(agents: InProcessAgents, run: Run) -> RunRefused:
    """Return a function that runs a command that is refused and changes nothing in the store.

    It returns the message.
    """

    def fail(*arguments: object, json_too: bool = True) -> str:
        before = stored(agents.worker)
        shown = run(*arguments)
        assert shown.exit_code == 1, shown.output
        assert shown.stdout == ""
        message = " ".join(shown.stderr.split()).removeprefix("error ")
        if json_too:
            result = run(*arguments, "--json")
            assert result.exit_code == 1, result.output
            assert " ".join(json.loads(result.stdout)["message"].split()) == message
        assert stored(agents.worker) == before
        return message

    return fail
