"""Rejected messages are listed, shown whole, tried again, and dropped."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from interlock.workers.cli import app
from interlock.workers.client import Client
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.producer_message import receive
from tests.systems.threads.threads import bring, client_of, thread_payload


@pytest.fixture
def interlock(server: EmbeddedServer, prefix: str, monkeypatch: pytest.MonkeyPatch) -> Client:
    monkeypatch.setenv("INTERLOCK_STORE_URL", server.url)
    monkeypatch.setenv("INTERLOCK_PREFIX", prefix)
    monkeypatch.setenv("INTERLOCK_NAMESPACE", prefix)
    return client_of(server.url, prefix)


def run(*words: str, code: int = 0) -> str:
    answered = CliRunner().invoke(app, ["rejected", *words])
    assert answered.exit_code == code, answered.output
    return answered.output


def run_json(*words: str, code: int = 0) -> Any:
    return json.loads(run(*words, "--json", code=code))


def early(interlock: Client, message_id: str) -> None:
    """Let a message to cancel a record be rejected, because there is no such record yet."""
    request = {"id": message_id, "record": "late", "actor": "shop"}
    assert receive(interlock, "cancel", [request], {})["answer"] == "rejected"


def test_a_message_is_tried_again_when_its_cause_is_gone(interlock: Client) -> None:
    early(interlock, "m1")
    (listed,) = run_json("list")
    assert (listed["verb"], listed["kind"]) == ("cancel", "refused at intake")
    assert "no record 'late'" in listed["reason"]
    assert json.loads(run_json("show", listed["id"])["body"])["actor"] == "shop"

    (refused,) = run_json("replay", listed["id"], code=1)
    assert "no record 'late'" in refused["reason"]
    assert len(run_json("list")) == 1, "a message that is rejected again stays"

    bring(interlock, "late", "awaiting_confirmation")
    (done,) = run_json("replay", "--all")
    assert (done["id"], done["answer"], done["state"]) == (listed["id"], "accepted", "dismissed")
    assert run_json("list") == []
    assert interlock.dispatch.rejected.counts() == {"refused at intake": 1}


def test_messages_are_tried_again_the_oldest_first(interlock: Client) -> None:
    for n in range(3):
        payload = thread_payload() | {"colour": "blue"}
        request = {"id": f"t{n}", "machine": "thread", "payload": payload}
        receive(interlock, "submit", [request], {})
    ids = [each["id"] for each in run_json("list")]

    assert [each["id"] for each in run_json("replay", "--all", code=1)] == ids[::-1]


def test_what_never_came_to_intake_cannot_be_tried_again(interlock: Client) -> None:
    interlock.dispatch.rejected.put("not decodable", "no JSON", "{")
    (refused,) = run_json("replay", "--all", code=1)

    assert "its producer has to send it anew" in refused["reason"]
    table = run("list")
    assert "not decodable" in table
    assert "no JSON" in table
    assert run("show", refused["id"]).endswith("{\n")


def test_a_message_of_a_system_that_this_process_does_not_know_stays(interlock: Client) -> None:
    request = {"id": "m1", "actor": "shop"}
    interlock.dispatch.rejected.put("refused at intake", "too early", request, verb="bill")
    (refused,) = run_json("replay", "--all", code=1)

    assert refused["reason"].startswith("there is no message 'bill' here; there are: submit, fire")
    assert len(run_json("list")) == 1


def test_messages_are_dropped(interlock: Client) -> None:
    for n in range(2):
        early(interlock, f"m{n}")
    newest = run_json("list")[0]["id"]

    assert run("drop", newest) == f"{newest}  dropped\n"
    assert len(run_json("list")) == 1
    run("drop", "--all")
    assert "no message was rejected" in run("list")


@pytest.mark.usefixtures("interlock")
@pytest.mark.parametrize("words", [(), ("1-1", "--all")])
def test_messages_are_named_or_all_of_them_are_meant(words: tuple[str, ...]) -> None:
    assert "name messages by their ids, or give --all" in run("drop", *words, code=1)
