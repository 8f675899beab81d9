"""`interlock serve` allows for as many files as it admits listeners, and says why it ends."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest
import uvicorn
from typer.testing import CliRunner

from interlock.workers.api.followers import LISTENERS_MAX
from interlock.workers.cli import app
from interlock.workers.console.cli import allow_open_files
from interlock.workers.gateways.server import EmbeddedServer

FILES = resource.RLIMIT_NOFILE


@pytest.fixture
def few_files() -> Iterator[None]:
    """Let this process open 1,000 files, as many systems do by default."""
    before = resource.getrlimit(FILES)
    if before[1] != resource.RLIM_INFINITY and before[1] < 2 * LISTENERS_MAX:
        pytest.skip("this system allows fewer open files")
    resource.setrlimit(FILES, (1_000, before[1]))
    yield
    resource.setrlimit(FILES, before)


@pytest.mark.usefixtures("few_files")
def test_a_file_can_be_opened_for_every_listener(
    server: EmbeddedServer, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTERLOCK_STORE_URL", server.url)
    monkeypatch.setenv("INTERLOCK_PREFIX", prefix)
    limits: list[int] = []

    def run(server: uvicorn.Server, _: object) -> None:
        limits.extend(resource.getrlimit(FILES))
        server.started = True

    monkeypatch.setattr(uvicorn.Server, "run", run)
    # It would keep the objects of this test for the whole run.
    monkeypatch.setattr("interlock.workers.console.cli.gc.freeze", lambda: None)

    answered = CliRunner().invoke(app, ["serve"])

    assert answered.exit_code == 0, answered.output
    assert limits[0] > LISTENERS_MAX


def test_a_port_that_is_taken_is_said_with_who_has_it(
    server: EmbeddedServer, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTERLOCK_STORE_URL", server.url)
    monkeypatch.setenv("INTERLOCK_PREFIX", prefix)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [sys.executable, "-m", "interlock", "serve", "--port", str(port)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)

    assert ended.returncode == 1
    assert f"error port {port} is in use by process {os.getpid()} (" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_who_may_open_fewer_files_is_told_how_many(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    limits = [(100, 200)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, limit: limits.append(limit))

    allow_open_files(300)
    assert limits[-1] == (200, 200)
    assert "at most 200 files can be open here" in caplog.text
    assert "to 300" in caplog.text
