"""`interlock top` as a command: in JSON, in a pipe, in a terminal, and while the store is away."""

from __future__ import annotations

import codecs
import json
import os
import re
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from rich.cells import cell_len
from typer.testing import CliRunner

from interlock.systems.tasks.machines.visual_state import VisualState
from interlock.workers.cli import app
from interlock.workers.client import Client
from interlock.workers.config import PREFIX
from interlock.workers.gateways.server import EmbeddedServer
from tests.conftest import NewProxy
from tests.systems.tasks.claims import claimed, scene
from tests.systems.threads.threads import client_of
from tests.waiting import until

TERMINAL = (
    "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
    "from interlock.__main__ import main; main()"
)
CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
HOME = "\x1b[H"


@pytest.fixture
def client(server: EmbeddedServer, prefix: str) -> Client:
    return client_of(server.url, prefix, lease_s=600)


@pytest.fixture
def variables(server: EmbeddedServer, prefix: str) -> dict[str, str]:
    values = {"STORE_URL": server.url, "PREFIX": prefix, "NAMESPACE": prefix}
    values |= {"LEASE_S": "600", "STALL_S": "300", "SPAWN_S": "300"}
    return {f"{PREFIX}{name}": value for name, value in values.items()}


def test_json_is_one_object_and_without_a_terminal_it_prints_once(
    client: Client, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    scene(client)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    printed = CliRunner().invoke(app, ["top"])
    answered = CliRunner().invoke(app, ["top", "--json", "--backlog", "b"])

    assert (printed.exit_code, answered.exit_code) == (0, 0)
    found: dict[str, Any] = json.loads(answered.stdout)
    assert {line["look"] for line in found["lines"]} == {str(look) for look in VisualState}
    assert found["lines"][0]["agent"] == "hangs~1"


def test_a_store_that_is_away_at_the_start_is_reported_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("INTERLOCK_STORE_URL", "redis://127.0.0.1:1/0")

    result = CliRunner().invoke(app, ["top", "--json"])

    assert result.exit_code == 1
    assert json.loads(result.stdout)["error"] == "StoreDownError"


@dataclass
class Screen:
    """A command in a terminal, and all its output so far."""

    process: subprocess.Popen[bytes]
    master: int
    output: str = ""

    def read(self) -> None:
        """Read its output until it closes the terminal."""
        # A character of several bytes may arrive in two chunks.
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        while True:
            try:
                chunk = os.read(self.master, 65_536)
            except OSError:
                return
            if not chunk:
                return
            self.output += decoder.decode(chunk)

    @property
    def rows(self) -> list[str]:
        """The rows on the terminal: those of the last frame but one, which is complete."""
        frames = self.output.split(HOME)
        return CODES.sub("", frames[-2]).split("\r\n") if len(frames) > 2 else []

    def wait_for(self, text: str, within_s: float = 180) -> None:
        def is_shown() -> bool:
            time.sleep(0.05)
            return any(text in row for row in self.rows)

        until(is_shown, what=f"{text!r} on the screen", within_s=within_s)


@contextmanager
def terminal(
    variables: dict[str, str], *arguments: str, rows: int, columns: int
) -> Iterator[Screen]:
    """Run `interlock top` in a terminal of its own."""
    master, slave = os.openpty()
    termios.tcsetwinsize(slave, (rows, columns))
    environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES", "NO_COLOR")}
    process = subprocess.Popen(
        [sys.executable, "-c", TERMINAL, "top", *arguments],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={**environment, "TERM": "xterm-256color", **variables},
        start_new_session=True,
    )
    os.close(slave)
    screen = Screen(process, master)
    reading = threading.Thread(target=screen.read)
    reading.start()
    try:
        yield screen
    finally:
        process.kill()
        process.wait()
        reading.join()
        os.close(master)


def test_in_a_terminal_it_fits_does_not_flicker_and_exits_with_0(
    client: Client, variables: dict[str, str]
) -> None:
    scene(client)
    for number in range(20):
        claimed(client, f"b/{'long-' * 8}{number}").alive()

    with terminal(variables, "--interval", "0.2", columns=80, rows=24) as screen:
        screen.wait_for("b/hangs")
        until(lambda: screen.output.count(HOME) > 6, what="it is redrawn several times")
        narrow = screen.rows
        termios.tcsetwinsize(screen.master, (50, 160))
        until(lambda: len(screen.rows) == 50, what="it fills the larger terminal")
        wide = screen.rows
        os.write(screen.master, b"\x03")
        assert screen.process.wait(180) == 0

    assert len(narrow) == 24
    assert max(map(cell_len, narrow)) <= 80 < max(map(cell_len, wide)) <= 160
    drawn_again = screen.output.split(HOME, 3)[3]
    assert "\x1b[2J" not in drawn_again, "the screen is never cleared between two frames"
    assert screen.output.count("\x1b[?1049h") == screen.output.count("\x1b[?1049l") == 1
    assert "Traceback" not in screen.output


def test_a_store_that_goes_away_is_reported_on_the_screen_until_it_is_back(
    client: Client, variables: dict[str, str], server: EmbeddedServer, new_proxy: NewProxy
) -> None:
    claimed(client, "b/first").alive()
    proxy = new_proxy(server.port)
    through = {**variables, "INTERLOCK_STORE_URL": proxy.url}

    with terminal(through, "--interval", "0.2", columns=80, rows=24) as screen:
        screen.wait_for("b/first")
        for fault in (proxy.refuse, proxy.black_hole):
            fault()
            screen.wait_for("the store does not answer")
            assert any("b/first" in row for row in screen.rows), "the last snapshot stays"
            assert max(map(cell_len, screen.rows)) <= 80
            claimed(client, f"b/{fault.__name__}").alive()
            proxy.heal()
            screen.wait_for(f"b/{fault.__name__}")
            until(
                lambda: not any("does not answer" in row for row in screen.rows),
                what="the report is gone",
            )
        os.write(screen.master, b"\x03")
        assert screen.process.wait(180) == 0
