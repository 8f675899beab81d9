"""What types `interlock agent`, as a person and as a program, into a store with one worker."""

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
from tests.workers.gateways.git.scene import make_repository
from tests.workers.jobs.test_graphs import stored
from tests.workers.loops.lives import Nest

Run = Callable[..., Any]
Ask = Callable[..., Any]
Tell = Callable[..., str]
Refuse = Callable[..., str]


@pytest.fixture
def nest(
    server: EmbeddedServer, prefix: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Nest:
    """Return who leads agents in the store that the command line finds in its environment."""
    home = tmp_path / "home"
    for name, value in {
        "STORE_URL": server.url,
        "PREFIX": prefix,
        "NAMESPACE": prefix,
        "HOME": str(home),
    }.items():
        monkeypatch.setenv(f"INTERLOCK_{name}", value)
    monkeypatch.chdir(tmp_path)
    return Nest(InProcessWorker(server.url, prefix, home))


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repository")


@pytest.fixture
def run() -> Run:
    """Return what types a command of `interlock agent`."""
    return lambda *words: CliRunner().invoke(app, ["agent", *map(str, words)])


@pytest.fixture
def ask(run: Run) -> Ask:
    """Return what types a command that succeeds, and reads its JSON."""

    def asked(*words: object) -> Any:
        result = run(*words, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    return asked


@pytest.fixture
def told(run: Run) -> Tell:
    """Return what types a command that succeeds, and reads what people see of it."""

    def read(*words: object) -> str:
        result = run(*words)
        assert result.exit_code == 0, result.output
        assert result.stderr == ""
        return " ".join(result.stdout.split())

    return read


@pytest.fixture
def refuse(nest: Nest, run: Run) -> Refuse:
    """Return what types a command that is refused, for programs and people, and writes nothing."""

    def refused(*words: object, json_too: bool = True) -> str:
        before = stored(nest.worker)
        shown = run(*words)
        assert shown.exit_code == 1, shown.output
        assert shown.stdout == ""
        message = " ".join(shown.stderr.split()).removeprefix("error ")
        if json_too:
            result = run(*words, "--json")
            assert result.exit_code == 1, result.output
            assert " ".join(json.loads(result.stdout)["message"].split()) == message
        assert stored(nest.worker) == before
        return message

    return refused
