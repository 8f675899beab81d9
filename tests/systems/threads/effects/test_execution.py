"""The execution of a thread's action: which results become which ends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from interlock.kernel import record
from interlock.kernel.event import Note
from interlock.kernel.scales import Level
from interlock.workers.gateways.capabilities import registry
from interlock.workers.gateways.capabilities.capability import Steps, capability
from interlock.workers.gateways.capabilities.decompose import decompose
from interlock.workers.gateways.server import EmbeddedServer
from tests.workers.engine.running import Running, settings_for


@pytest.fixture
def running(server: EmbeddedServer, prefix: str, monkeypatch: pytest.MonkeyPatch) -> Running:
    monkeypatch.setattr(registry, "decompose", replace(decompose, deadline_s=60))
    return Running(settings_for(server.url, prefix))


def test_a_split_into_parts_is_decomposed(running: Running) -> None:
    part = {"title": "a", "text": "b", "policy": "ask_every_step"}
    running.approved("decompose", children=[part, part])

    assert running.perform("one", name="execution") == "decomposed -> monitoring"


@capability(name="stepwise", idempotent=True, irreversibility=Level.LOW, deadline_s=60)
def stepwise(*, steps: Steps) -> str:
    """Do two things."""
    steps.add("invited", "Ann")
    steps.add("paid", "1 euro")
    return "done"


def test_each_step_of_a_capability_is_a_note_of_the_log(
    server: EmbeddedServer, prefix: str
) -> None:
    running = Running(settings_for(server.url, prefix, INTERLOCK_CAPABILITIES=__name__))
    running.approved("stepwise")

    running.perform("one", name="execution")

    notes = [line for line in running.client.history("one") if isinstance(line, Note)]
    told = [(note.kind, note.detail.get("name"), note.detail.get("detail")) for note in notes]
    assert [one for one in told if one[0].startswith("execution_")] == [
        ("execution_started", None, None),
        ("execution_step", "invited", "Ann"),
        ("execution_step", "paid", "1 euro"),
        ("execution_finished", None, None),
    ]


@pytest.mark.parametrize("policy", ["as you like", {"budget_usd": -1}])
def test_a_split_that_no_record_can_take_fails_and_is_not_tried_again(
    running: Running, policy: Any
) -> None:
    running.approved("decompose", children=[{"title": "a", "text": "b", "policy": policy}])

    running.perform("one", name="execution")

    failure = running.client.show("one").data["failure"]
    assert failure["code"] == "invalid_result"
    assert "autonomy policy" in failure["detail"]


def test_a_thread_below_which_no_record_may_be_is_not_split(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    running.approved("decompose", children=[{"title": "a", "text": "b"}])
    monkeypatch.setattr(record, "ID_DEPTH_MAX", 1)

    running.perform("one", name="execution")

    failure = running.client.show("one").data["failure"]
    assert failure["code"] == "too_deep"
    assert failure["detail"] == "a thread can be split at most 0 levels deep"
