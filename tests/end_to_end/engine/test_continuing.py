"""A thread of a worker goes on with the next effects of a record, and keeps no other waiting."""

from __future__ import annotations

import json
from typing import Any

import pytest

from interlock.workers.engine.continuing import EFFECTS_MAX
from tests.end_to_end.conftest import NewDeployment
from tests.end_to_end.deployment import Deployment
from tests.end_to_end.engine.journeys import Journey, journey
from tests.known_systems import know_only_ours

# What a task is told of the process that sent its message.
OF_A_SENDER = ("origin", "properties", "reply_to")
VARIABLES = {"INTERLOCK_SYSTEMS": "tests.end_to_end.engine.journeys"}


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the workflow after each test: the client of a test adds it to this process."""
    know_only_ours(monkeypatch)


def lines(deployment: Deployment, *whats: str) -> list[dict[str, Any]]:
    """Return what the workers wrote about the steps, in order."""
    file = deployment.folder / "journeys.jsonl"
    found = file.read_text().splitlines() if file.exists() else []
    return [line for line in map(json.loads, found) if line["what"] in whats or not whats]


def submit(deployment: Deployment, name: str, steps: int, priority: int = 5, gate: str = "") -> str:
    payload = Journey(steps=steps, gate=gate)
    return deployment.client.submit(journey, payload, id=name, priority=priority).id


def at_the_gate(deployment: Deployment) -> Any:
    """Let the only thread of a worker wait in the first step of a record; return its gate."""
    gate = deployment.folder / "gate"
    submit(deployment, "first", 3 * EFFECTS_MAX, gate=str(gate))
    deployment.sees(lambda: lines(deployment, "begun"), what="the first step has begun")
    return gate


def order(deployment: Deployment, *names: str) -> list[str]:
    """Return of which record each step was, once these records have ended."""
    deployment.ends(*names)
    return [line["id"].partition(":")[0] for line in lines(deployment, "begun")]


def test_each_effect_is_a_task_of_its_own_to_celery(new_deployment: NewDeployment) -> None:
    deployment = new_deployment()
    worker = deployment.worker(concurrency=1)

    assert order(deployment, submit(deployment, "one", 3)) == ["one"] * 3

    ids = [line["id"] for line in lines(deployment, "begun")]
    assert len(set(ids)) == 3
    signals = ("received", "prerun", "begun", "success", "postrun")
    happened = [(line["what"], line["id"]) for line in lines(deployment)]
    assert happened[1:] == [(what, id_) for id_ in ids for what in signals][1:]
    sent, *unsent = (of_any(line["request"]) for line in lines(deployment, "begun"))
    assert unsent == [sent] * 2
    for name, id_ in zip(("left", "right", "left"), ids, strict=True):
        assert f"Task journey.{name}[{id_}] received" in worker.output
        assert f"Task journey.{name}[{id_}] succeeded" in worker.output
    claims = deployment.notes("one", "claim")
    assert [claim.detail["attempt"] for claim in claims] == [1, 1, 1]


def of_any(request: dict[str, str]) -> dict[str, str]:
    """Return what tasks are told of the effects of one record, without what each has of its own."""
    version = request["id"].partition(":")[2].partition(".")[0]
    request = {name: text for name, text in request.items() if name not in OF_A_SENDER}
    own = {request["id"]: "<id>", f"one v{version}": "<shown>", request["task"]: "<task>"}
    for value, name in own.items():
        request = {field: text.replace(value, name) for field, text in request.items()}
    return request


def test_a_message_that_waits_waits_for_a_stretch_at_most(
    new_deployment: NewDeployment,
) -> None:
    deployment = new_deployment()
    deployment.worker(concurrency=1)
    gate = at_the_gate(deployment)
    submit(deployment, "second", 2)
    deployment.sees(
        lambda: any(line["id"].startswith("second") for line in lines(deployment, "received")),
        what="the worker has received another message",
    )
    gate.touch()
    steps = order(deployment, "first", "second")

    before = steps.index("second")
    assert 1 < before <= EFFECTS_MAX, "one thread goes on, but not for ever"
    assert steps[before : before + 2] == ["second"] * 2


def urgent_second(deployment: Deployment) -> None:
    """Check that a message waits for one effect where its record is more urgent."""
    deployment.worker(concurrency=1)
    gate = at_the_gate(deployment)
    submit(deployment, "urgent", 2, priority=4)
    deployment.sees(
        lambda: any(line["id"].startswith("urgent") for line in lines(deployment, "received")),
        what="the worker has received a more urgent message",
    )
    gate.touch()

    assert order(deployment, "first", "urgent")[:3] == ["first", "urgent", "urgent"]


def test_a_more_urgent_message_waits_for_one_effect(new_deployment: NewDeployment) -> None:
    urgent_second(new_deployment())


@pytest.mark.slow
def test_a_more_urgent_message_waits_for_one_effect_on_rabbitmq(
    new_deployment: NewDeployment, rabbitmq: str
) -> None:
    urgent_second(new_deployment(INTERLOCK_BROKER_URL=rabbitmq))
