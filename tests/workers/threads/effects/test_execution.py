"""The execution of a thread's action: which results become which ends."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.workers.gateways.server import EmbeddedServer
from tests.workers.engine.running import Running, settings_for


@pytest.fixture
def running(server: EmbeddedServer, prefix: str) -> Running:
    return Running(settings_for(server.url, prefix))


def test_a_split_into_parts_is_decomposed(running: Running) -> None:
    part = {"title": "a", "text": "b", "policy": "hands_off"}
    running.approved("decompose", children=[part, part])

    assert running.perform("one", name="execution") == "decomposed -> monitoring"


@pytest.mark.parametrize("policy", ["as you like", {"budget_usd": -1}])
def test_a_split_that_no_record_can_take_fails_and_is_not_tried_again(
    running: Running, policy: Any
) -> None:
    running.approved("decompose", children=[{"title": "a", "text": "b", "policy": policy}])

    running.perform("one", name="execution")

    failure = running.client.show("one").data["failure"]
    assert failure["code"] == "invalid_result"
    assert "autonomy policy" in failure["detail"]
