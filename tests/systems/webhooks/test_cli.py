"""The commands that list and replay the deliveries that have failed for good."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from interlock.kernel.event import Event
from interlock.workers.cli import app
from interlock.workers.gateways.server import EmbeddedServer
from tests.systems.webhooks.test_deliveries import DELIVERY, failing
from tests.workers.engine.running import Running, perform, settings_for

FIELDS = {"kind": "card.withdrawn", "record": "one", "machine": "thread", "at_ms": 1}


def test_dead_deliveries_are_listed_and_sent_again(
    server: EmbeddedServer, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = Running(settings_for(server.url, prefix))
    for name, endpoint in (("a", "chat"), ("b", "other")):
        running.client.submit({**FIELDS, "endpoint": endpoint}, machine="delivery", id=name)
        key = running.entry(name).key(name)
        perform(running.runner, DELIVERY, "webhook", failing(gone=True), key)
    for name, value in (("STORE_URL", server.url), ("PREFIX", prefix), ("NAMESPACE", prefix)):
        monkeypatch.setenv(f"INTERLOCK_{name}", value)

    def run(*words: str) -> tuple[int, str]:
        result = CliRunner().invoke(app, ["webhook", *words])
        return result.exit_code, result.stdout

    listed = json.loads(run("dead", "chat", "--json")[1])
    assert [(row["id"], row["why"]) for row in listed] == [("a", "no")]
    assert "other" in run("dead")[1]
    assert run("replay")[0] == 1, "it says which"
    code, text = run("replay", "--all", "chat", "--as", "ann")
    assert (code, "sent again" in text) == (0, True)
    assert running.client.show("a").state == "sending"
    last = running.client.history("a")[-1]
    assert isinstance(last, Event)
    assert last.cause.actor == "ann"
    code, text = run("replay", "a")
    assert (code, "refused" in text) == (1, True)
    assert run("dead", "chat")[1].startswith("every delivery was taken")
