"""A store that the command line finds in its environment."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from interlock.workers.cli import app
from interlock.workers.client import Client
from interlock.workers.gateways.server import EmbeddedServer
from tests.systems.threads.threads import client_of

Run = Callable[..., Any]
RunJson = Callable[..., Any]


@pytest.fixture
def interlock(
    server: EmbeddedServer, prefix: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Client:
    """Return a client of the store that the command line finds in its environment."""
    for name, value in {
        "STORE_URL": server.url,
        "PREFIX": prefix,
        "NAMESPACE": prefix,
        "CAPABILITIES": "tests.end_to_end.threads.capabilities",
        "HOME": str(tmp_path),
    }.items():
        monkeypatch.setenv(f"INTERLOCK_{name}", value)
    return client_of(server.url, prefix)


@pytest.fixture
def run() -> Run:
    """Return a function that runs a command."""
    return lambda *arguments: CliRunner().invoke(app, [str(word) for word in arguments])


@pytest.fixture
def run_json(run: Run) -> RunJson:
    """Return a function that runs a command with --json, which succeeds, and returns its value."""

    def succeed(*arguments: object) -> Any:
        result = run(*arguments, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    return succeed
