"""The inference of a thread: what it asks a person instead of asking the model."""

from __future__ import annotations

import asyncio

import pytest

from interlock.systems.threads.effects.inference import inference
from interlock.workers.gateways.server import EmbeddedServer
from tests.workers.engine.running import Running, settings_for
from tests.workers.engine.test_work import claimed


def test_a_model_without_a_known_price_is_not_asked(server: EmbeddedServer, prefix: str) -> None:
    address = "http://127.0.0.1:9/v1"
    model = {"INTERLOCK_MODEL": "mine:7b", "INTERLOCK_MODEL_BASE_URL": address}
    running = Running(settings_for(server.url, prefix, **model))
    running.client.submit({"inciting": {"title": "x"}}, machine="thread", id="one")

    outcome = asyncio.run(inference(claimed(running, name="inference")))

    running.dispatch.client.close()
    assert (outcome.trigger, outcome.payload["code"]) == ("budget_exceeded", "unknown_price")
    assert "set INTERLOCK_MODEL_PRICES=mine:7b=INPUT/OUTPUT" in outcome.payload["detail"]


@pytest.mark.parametrize("target", ["intent", "action"])
def test_a_card_that_did_not_understand_lists_capabilities(
    server: EmbeddedServer, prefix: str, target: str
) -> None:
    settings = {
        "INTERLOCK_MODEL": "embedded:wordllama",
        "INTERLOCK_MODEL_BASE_URL": "",
        "INTERLOCK_CAPABILITIES": "examples.capabilities",
    }
    running = Running(settings_for(server.url, prefix, **settings))
    given = {"intent": "who knows", "item_ids": []} if target == "action" else {}
    payload = {"inciting": {"title": "Mow the meadow"}, "policy": "end_to_end", "given": given}
    running.client.submit(payload, machine="thread", id="one")
    if given:
        for _ in ("intent", "context"):
            work = claimed(running, name="inference")
            outcome = asyncio.run(inference(work))
            work.fire(outcome)

    outcome = asyncio.run(inference(claimed(running, name="inference")))

    running.dispatch.client.close()
    found = outcome.payload
    asks = found if target == "intent" else found["proposal"]["payload"]
    said = asks["detail"] if target == "intent" else asks["blocked_on"]
    assert said.startswith("I did not understand what is wanted with 'Mow the meadow'")
    offered = {one["text"]: one["says"] for one in asks["options"]}
    assert offered["add_task"] == "Put something that has to be done on the to-do list"
