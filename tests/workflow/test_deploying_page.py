"""The page about deploying a change, run as its reader does it: each diff, each command."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from interlock import Client
from interlock.workers.cli import app
from interlock.workers.engine.table_check import check_tables
from interlock.workers.gateways.server import EmbeddedServer
from tests.known_systems import know_only_ours
from tests.workers.engine.running import settings_for

PAGE = (Path(__file__).parents[2] / "docs" / "deploying_changes.md").read_text("utf-8")
BLOCK = re.compile(r"^```(python|diff|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ interlock (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
REFUNDS = 50


@pytest.fixture
def folder(
    tmp_path: Path, server: EmbeddedServer, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """Return a folder whose commands act on a store of their own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INTERLOCK_STORE_URL", server.url)
    monkeypatch.setenv("INTERLOCK_PREFIX", prefix)
    monkeypatch.setenv("COLUMNS", "200")
    yield tmp_path
    sys.modules.pop("refund", None)


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Import refund.py anew next time, as each process does."""
    know_only_ours(monkeypatch)
    monkeypatch.setattr(sys, "path", [*sys.path])
    sys.modules.pop("refund", None)


def patched(text: str, diff: str) -> str:
    """Return a text after a diff without line numbers."""
    lines = diff.splitlines()
    old = "\n".join(line[1:] for line in lines if line[:1] != "+")
    new = "\n".join(line[1:] for line in lines if line[:1] != "-")
    assert text.count(old) == 1, f"{old!r} stands once in {text}"
    return text.replace(old, new)


def hand_in(client: Client) -> None:
    """Start the first version, and let 50 refunds ask and one wait for its payment."""
    check_tables(client.dispatch, applied_by="worker")
    for number in range(REFUNDS + 1):
        order = {"order": f"ann-{number}", "cents": 5}
        client.submit(order, machine="refund", id=f"r-{number}")
    client.decide("r-0", "approve", proposal="r-0:1")


def test_each_command_of_the_page_prints_what_the_page_shows(
    folder: Path, server: EmbeddedServer, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, settings = folder / "refund.py", settings_for(server.url, prefix, INTERLOCK_SYSTEMS="")
    settings = settings.model_copy(update={"systems": (str(file),)})
    shown: list[str] = []
    printed: list[str] = []
    for kind, text in BLOCK.findall(PAGE):
        forget(monkeypatch)
        if kind == "python":
            file.write_text(text, "utf-8")
            hand_in(Client(settings, actor="ann"))
        elif kind == "diff":
            file.write_text(patched(file.read_text("utf-8"), text), "utf-8")
        else:
            for words, output in COMMAND.findall(text):
                forget(monkeypatch)
                shown.append(f"$ interlock {words}\n{output}")
                result = CliRunner().invoke(app, words.split())
                printed.append(f"$ interlock {words}\n{result.output}")
    assert printed == shown
    forget(monkeypatch)
    check_tables(Client(settings, actor="ann").dispatch, applied_by="worker")
    records = Client(settings, actor="ann").list(machine="refund")
    assert {record.state for record in records} == {"approval", "pay"}
