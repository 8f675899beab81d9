"""The inference of a thread: what it asks a person instead of asking the model."""

from __future__ import annotations

import asyncio

from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.threads.effects.inference import inference
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
