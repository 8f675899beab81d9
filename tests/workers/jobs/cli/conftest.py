"""What types `interlock job`, as a person and as a program, into a store with one worker."""

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
    """Return a worker of the store that the command line finds in its environment."""
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
    """Return what types a command of `interlock job`."""
    return lambda *words: CliRunner().invoke(app, ["job", *map(str, words)])


@pytest.fixture
def ask(run: Run) -> Ask:
    """Return what types a command that succeeds, and reads its JSON."""

    def asked(*words: object) -> Any:
        result = run(*words, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    return asked


@pytest.fixture
def told(run: Run) -> Ask:
    """Return what types a command that succeeds, and reads what people see of it."""

    def read(*words: object) -> str:
        result = run(*words)
        assert result.exit_code == 0, result.output
        return " ".join(result.stdout.split())

    return read


@pytest.fixture
def refuse(run: Run) -> Refuse:
    """Return what types a command that is refused, for a program and for a person alike."""

    def refused(*words: object) -> str:
        result, shown = run(*words, "--json"), run(*words)
        assert (result.exit_code, shown.exit_code) == (1, 1), result.output
        message = str(json.loads(result.stdout)["message"])
        assert " ".join(message.split()) in " ".join(shown.stderr.split())
        assert shown.stdout == ""
        return message

    return refused
