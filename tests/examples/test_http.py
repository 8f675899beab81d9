"""The examples in other languages create a thread over HTTP, answer its card and follow it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interlock.kernel.event import Event
from interlock.workers.client import Client
from interlock.workers.gateways.server import EmbeddedServer
from tests.systems.threads.threads import client_of
from tests.workers.access.tokens import new_token
from tests.workers.api.serving import served

HTTP = Path(__file__).parents[2] / "examples" / "http"


@pytest.fixture
def interlock(server: EmbeddedServer, prefix: str) -> Client:
    return client_of(server.url, prefix)


@pytest.fixture
def variables(interlock: Client) -> Iterator[dict[str, str]]:
    """Return the variables of a producer that may also answer, for a served API."""
    token = new_token(interlock, "producer", "approver", holder="shop")
    with served(interlock) as url:
        yield {"INTERLOCK_API_URL": url, "INTERLOCK_API_TOKEN": token, "SECONDS_TO_FOLLOW": "600"}


def run(*command: str, variables: dict[str, str]) -> Any:
    return subprocess.run(
        command, env=os.environ | variables, capture_output=True, text=True, check=False
    )


def answered_by(interlock: Client) -> tuple[str, str]:
    last = [line for line in interlock.history("call") if isinstance(line, Event)][-1]
    return last.cause.actor, last.target


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_the_example_for_a_shell(interlock: Client, variables: dict[str, str]) -> None:
    command = ["/bin/sh", str(HTTP / "follow.sh"), "call", "drop"]
    environment, lines = os.environ | variables, list[str]()
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line.strip())
            if '"target":"dismissed"' in line.replace(" ", ""):
                os.killpg(process.pid, signal.SIGKILL)

    assert '{"id":"call","replayed":false}' in lines
    assert lines.count("event: event") == interlock.show("call").version
    assert answered_by(interlock) == ("shop", "dismissed")


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_the_example_for_a_shell_ends_when_its_time_is_up(variables: dict[str, str]) -> None:
    command = ["/bin/sh", str(HTTP / "follow.sh"), "call", "drop"]
    done = run(*command, variables=variables | {"SECONDS_TO_FOLLOW": "1"})

    assert done.returncode == 0, done.stderr + done.stdout


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no Node here")
def test_the_example_for_node(interlock: Client, variables: dict[str, str]) -> None:
    done = run("node", str(HTTP / "follow.mjs"), "call", "drop", variables=variables)

    assert done.returncode == 0, done.stderr + done.stdout
    assert "-> dismissed" in done.stdout
    assert answered_by(interlock) == ("shop", "dismissed")
    again = run("node", str(HTTP / "follow.mjs"), "call", "drop", variables=variables)
    assert (again.returncode, again.stdout.count("-> dismissed")) == (0, 1), again.stderr
