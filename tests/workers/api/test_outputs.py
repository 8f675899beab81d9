"""The output of an agent is read and followed over HTTP, on whatever computer the agent is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from http.client import HTTPResponse
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from interlock.workers.api import followers
from interlock.workers.client import Client
from interlock.workers.engine import agent_output
from interlock.workers.gateways.server import EmbeddedServer
from tests.systems.tasks.claims import claimed
from tests.systems.threads.threads import bring, client_of
from tests.waiting import until
from tests.workers.api.serving import served
from tests.workers.supervision.published import Published

FOLDER = "supervisors/b/one~1"


@pytest.fixture
def interlock(server: EmbeddedServer, prefix: str, tmp_path: Path) -> Client:
    return client_of(server.url, prefix, auth="none", home=tmp_path / "of-the-api")


@pytest.fixture
def published(interlock: Client, tmp_path: Path) -> Published:
    return Published(interlock, tmp_path / "of-the-worker", "anvil")


@pytest.fixture
def address(interlock: Client, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(followers, "POLL_S", 0.01)
    with served(interlock) as url:
        yield f"{url}/v1/records"


def got(address: str, record_id: str) -> Any:
    with urlopen(f"{address}/{record_id}:output", timeout=180) as answer:  # noqa: S310 - our own
        return json.loads(answer.read())


def next_event(stream: HTTPResponse) -> tuple[str, dict[str, Any]]:
    """Return the id and the data of the next event."""
    fields: dict[str, str] = {}
    while "data" not in fields:
        while line := stream.readline().decode().rstrip("\r\n"):
            name, _, value = line.partition(": ")
            fields[name] = value
    return fields["id"], json.loads(fields["data"])


def test_a_listener_gets_what_an_agent_prints_as_its_computer_publishes_it(
    interlock: Client, published: Published, address: str
) -> None:
    claim = claimed(interlock, "b/one")
    none = got(address, "b/one")
    claim.alive(host="anvil")
    stream = f"{address}/b/one:output-events"

    with urlopen(stream, timeout=180) as answer:  # noqa: S310 - our own
        _, asked = next_event(answer)
        published.prints(FOLDER, "one\n", "a warning\n")
        until(published.publisher.publish, what="the API asks for the output")
        _, first = next_event(answer)
        published.prints(FOLDER, "one\ntwo\n")
        published.publisher.publish()
        last, second = next_event(answer)
    again = Request(stream, headers={"Last-Event-ID": last})  # noqa: S310 - our own
    with urlopen(again, timeout=180) as answer:  # noqa: S310 - our own
        published.prints(FOLDER, "one\ntwo\nthree\n")
        published.publisher.publish()
        _, third = next_event(answer)

    assert (none["state"], none["host"]) == ("not_started", "")
    assert (asked["state"], asked["host"]) == ("asked", "anvil")
    assert (first["state"], first["output"], first["errors"]) == ("known", "one\n", "a warning\n")
    assert first["printed_ms"] <= first["answered_ms"] <= first["now_ms"]
    assert (second["output"], second["end"], third["output"]) == (
        "one\ntwo\n",
        8,
        "one\ntwo\nthree\n",
    )


def test_a_worker_that_does_not_answer_is_named_with_what_it_published_last(
    interlock: Client, published: Published, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    claimed(interlock, "b/one").alive(host="anvil")
    published.printed(FOLDER, "one\n")
    monkeypatch.setattr(agent_output, "ANSWER_MS", -1)

    found = got(address, "b/one")

    assert (found["state"], found["output"]) == ("unanswered", "one\n")
    assert re.fullmatch(
        r"The worker on anvil, where the output is, has not answered for \d+ s\. "
        "`interlock doctor` says which workers run.",
        found["detail"],
    )


def test_records_that_have_no_agent_have_no_output(interlock: Client, address: str) -> None:
    bring(interlock, "paper", "awaiting_confirmation")

    for path in ("paper:output", "paper:output-events"):
        with pytest.raises(HTTPError) as refused:
            urlopen(f"{address}/{path}", timeout=180)  # noqa: S310 - our own
        assert refused.value.code == 400
        assert "paper is a thread" in json.loads(refused.value.read())["detail"]
