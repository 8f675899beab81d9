"""Fixtures that run `interlock job` as a person and as a program, on a store with one worker."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from interlock.workers.cli import app
from interlock.workers.gateways.server import EmbeddedServer
from tests.races.in_process_worker import InProcessWorker

Run = Callable[..., Any]
Ask = Callable[..., Any]
Refuse = Callable[..., str]


@pytest.fixture
def worker(
    server: EmbeddedServer, prefix: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> InProcessWorker:
    """Return a worker on the store that the environment of the command line names."""
    home = tmp_path / "home"
    for name, value in {
        "STORE_URL": server.url,
        "PREFIX": prefix,
        "NAMESPACE": prefix,
        "HOME": str(home),
    }.items():
        monkeypatch.setenv(f"INTERLOCK_{name}", value)
    monkeypatch.chdir(tmp_path)
    return InProcessWorker(server.url, prefix, home)


@pytest.fixture
def run() -> Run:
    """Return a function that runs a command of `interlock job`."""
    return lambda *words: CliRunner().invoke(app, ["job", *map(str, words)])


@pytest.fixture
def ask(run: Run) -> Ask:
    """Return a function that runs a command that succeeds, and returns its JSON."""

    def asked(*words: object) -> Any:
        result = run(*words, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    return asked


@pytest.fixture
def printed(run: Run) -> Ask:
    """Return a function that runs a command that succeeds, and returns its text for people."""

    def read(*words: object) -> str:
        result = run(*words)
        assert result.exit_code == 0, result.output
        return " ".join(result.stdout.split())

    return read


@pytest.fixture
def refuse(run: Run) -> Refuse:
    """Return a function that runs a command that is refused, and returns its message.

    The message is the same for a program and for a person.
    """

    def refused(*words: object) -> str:
        result, shown = run(*words, "--json"), run(*words)
        assert (result.exit_code, shown.exit_code) == (1, 1), result.output
        message = str(json.loads(result.stdout)["message"])
        assert " ".join(message.split()) in " ".join(shown.stderr.split())
        assert shown.stdout == ""
        return message

    return refused
