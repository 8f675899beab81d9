"""What agents print is read and followed on the store and over HTTP, by clients and commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from interlock.kernel.errors import CallError
from interlock.workers.api.app import create_app
from interlock.workers.cli import app
from interlock.workers.client import Client
from interlock.workers.engine import agent_output
from interlock.workers.engine.polling import Intervals
from interlock.workers.engine.printed_output import Logs
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.remote.client import HttpClient
from tests.systems.tasks.claims import Claimed, claimed
from tests.systems.threads.threads import bring, client_of
from tests.workers.supervision.published import Published

FOLDER = "supervisors/b/one~1"
URL = "http://127.0.0.1"
NOTE = "This is the end of its output: anvil has all that is kept of it.\n"


@pytest.fixture
def interlock(server: EmbeddedServer, prefix: str, tmp_path: Path) -> Client:
    return client_of(server.url, prefix, auth="none", home=tmp_path / "of-the-client")


@pytest.fixture
def served(interlock: Client) -> Iterator[TestClient]:
    with TestClient(create_app(interlock), base_url=URL) as http:
        yield http


@pytest.fixture
def published(interlock: Client, tmp_path: Path) -> Published:
    return Published(interlock, tmp_path / "of-the-worker", "anvil")


@pytest.fixture
def between(published: Published, monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], object]]:
    """Return what is done between polls, one each time, before the worker publishes."""
    actions: list[Callable[[], object]] = []

    def pause(_: Intervals) -> None:
        if actions:
            actions.pop(0)()
        published.publisher.publish()

    monkeypatch.setattr(Intervals, "sleep", pause)
    return actions


@pytest.fixture
def claim(interlock: Client) -> Claimed:
    place = {"repo": "/home/ann/paper", "worktree": "/trees/one@1"}
    return claimed(interlock, "b/one", of_turn={**place, "host": "anvil"}).alive(host="anvil")


@pytest.fixture(params=["store", "http"])
def reader(
    request: pytest.FixtureRequest, interlock: Client, served: TestClient
) -> Client | HttpClient:
    """Return a client: both read the same."""
    return interlock if request.param == "store" else HttpClient(URL, http=served)


def test_the_end_of_an_output_is_read_from_another_computer(
    reader: Client | HttpClient,
    interlock: Client,
    claim: Claimed,
    published: Published,
    between: list[Callable[[], object]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    del claim, between
    published.prints(FOLDER, "one\n", "a warning\n")

    assert reader.logs("b/one", number=1) == Logs("one\n", "a warning\n", NOTE)
    with monkeypatch.context() as patched:
        patched.setattr(agent_output, "ANSWER_MS", -1)
        old = reader.logs("b/one")
    assert old.output == "one\n"
    assert old.note.startswith(f"{NOTE}It may have printed more since then. The worker on anvil")
    with pytest.raises(CallError, match="b/one has no run 2 of an agent; it has had 1"):
        reader.logs("b/one", number=2)
    bring(interlock, "paper", "awaiting_confirmation")
    with pytest.raises(CallError, match="paper is a thread"):
        reader.logs("paper")
    with pytest.raises(CallError, match="paper is a thread"):
        list(reader.tail("paper"))


def test_the_place_of_work_that_was_not_merged_is_named_on_every_way(
    reader: Client | HttpClient,
    claim: Claimed,
    published: Published,
    between: list[Callable[[], object]],
) -> None:
    del between
    published.prints(FOLDER, "one\n")
    claim.task_fires("failed", {"reason": "it crashed", "final": True})

    note = reader.logs("b/one").note

    where = "the work of claim 1 is in /trees/one@1 on anvil: `cd /trees/one@1` (until it is saved)"
    assert note == f"{NOTE}{where}\n"


def test_an_output_is_followed_until_the_task_asks_a_person(
    reader: Client | HttpClient,
    claim: Claimed,
    published: Published,
    between: list[Callable[[], object]],
) -> None:
    def end() -> None:
        published.prints(FOLDER, "old\nnew ä\nlast\n")
        claim.agent_fires("ended", {"reason": "it crashed"})
        claim.task_fires("failed", {"reason": "it crashed", "final": True})

    published.prints(FOLDER, "old\n")
    half = "old\nnew ä".encode()[:-1]
    between += [
        lambda: None,
        lambda: (published.home / FOLDER / "output.log").write_bytes(half),
        lambda: published.prints(FOLDER, "old\nnew ä\n"),
        end,
    ]

    assert list(reader.tail("b/one")) == ["new ", "ä\n", "last\n"]


def test_commands_read_the_output_of_a_task_over_http(
    served: TestClient,
    claim: Claimed,
    published: Published,
    between: list[Callable[[], object]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def end() -> None:
        published.prints(FOLDER, "one\n\x1b[2J\n")
        claim.task_fires("failed", {"reason": "it crashed", "final": True})

    monkeypatch.setenv("INTERLOCK_API_URL", URL)
    monkeypatch.setattr(httpx2, "Client", lambda **_: served)
    published.prints(FOLDER, "one\n", "a warning\n")

    logs = CliRunner().invoke(app, ["task", "logs", "b/one"])
    between += [end]
    tail = CliRunner().invoke(app, ["task", "tail", "b/one"])

    assert (logs.stdout, logs.stderr) == ("one\n", f"a warning\n{NOTE}")
    assert (tail.exit_code, tail.stdout) == (0, "\\x1b[2J\n"), "it moves no cursor"
