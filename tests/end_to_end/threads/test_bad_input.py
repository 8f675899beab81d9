"""Messages that no worker can handle are rejected and counted once, and end no worker."""

from __future__ import annotations

import base64
import copy
import json
import os
import subprocess
import sys
from typing import Any

import pytest
import redis

from interlock.kernel.machines import MACHINES
from interlock.workers.engine.registration import MissingHandlerError, register_effects
from interlock.workers.engine.resources import Resources
from interlock.workers.engine.runner import Runner
from interlock.workers.systems import handlers
from tests.end_to_end.conftest import NewDeployment
from tests.end_to_end.deployment import ROOT, Deployment, thread
from tests.waiting import until


def envelope(body: Any, **headers: Any) -> bytes:
    """Return a message that the transport accepts, with a chosen body and headers."""
    encoded = body if isinstance(body, bytes) else json.dumps(body).encode()
    properties = {
        "correlation_id": "x",
        "delivery_mode": 2,
        "delivery_info": {"exchange": "", "routing_key": "x"},
        "priority": 0,
        "body_encoding": "base64",
        "delivery_tag": "x",
    }
    message = {
        "body": base64.b64encode(encoded).decode(),
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": headers,
        "properties": properties,
    }
    return json.dumps(message).encode()


def task(*args: Any, name: str = "thread.execution", **kwargs: Any) -> bytes:
    """Return a task message."""
    body = [list(args), kwargs, {"callbacks": None, "errbacks": None, "chain": None, "chord": None}]
    return envelope(body, lang="py", task=name, id="x", root_id="x", parent_id=None, retries=0)


def misshapen(queue: str, **over: Any) -> bytes:
    """Return an effect's message as its queue delivers it, with some parts misshapen."""
    message = json.loads(task("x:1.0:y"))
    message["properties"]["delivery_info"] = {"exchange": queue, "routing_key": queue}
    message["headers"] |= over.pop("headers", {})
    message["properties"] |= over.pop("properties", {})
    return json.dumps(message | over).encode()


MISSHAPEN: dict[str, dict[str, Any]] = {
    "a list for a task": {"headers": {"task": ["a"]}},
    "a mapping for an id": {"headers": {"id": {"a": 1}}},
    "numbers for stamps": {"headers": {"stamps": 7, "stamped_headers": 9}},
    "a list for a content type": {"content-type": ["a"]},
    "a number for an encoding": {"content-encoding": 7},
    "an unknown body encoding": {"properties": {"body_encoding": "rot13"}},
    "a list for a body encoding": {"properties": {"body_encoding": [1]}},
    "a body that is not base64": {"body": "###é"},
}
GARBAGE = {
    "JSON without end": b"[" * 100_000,
    "no JSON": b"\xff\xfe{not json",
    "a number": b"42",
    "an empty object": b"{}",
    "a list": b"[]",
    "a body that is not JSON": envelope(b"{{{", lang="py", task="thread.execution", id="x"),
    "no task": envelope({"hello": 1}),
    "pickle": envelope(b"cos\nsystem\n(S'true'\ntR.", task="thread.execution", id="x").replace(
        b"application/json", b"application/x-python-serialize"
    ),
    "an unknown task": task("x:1.0:y", name="thread.launder"),
    "no arguments": task(),
    "two arguments": task("x:1.0:y", "z"),
    "a keyword": task(key="x:1.0:y"),
    "a number for an effect": task(7),
    "an id that is none": task("no effect at all"),
    "an id with a newline": task("x\n:1.0:y"),
    "an unknown record": task("nobody:1.0:abc"),
    "a huge argument": task("x" * 300_000),
}
REJECTED = len(GARBAGE) - 1  # an unknown record may be one that was pruned


def test_garbage_in_the_queues_is_rejected_and_ends_no_worker(
    joint_deployment: Deployment, client: redis.Redis
) -> None:
    deployment, one = joint_deployment, f"{joint_deployment.scope}-one"
    rejected = deployment.client.dispatch.rejected
    wanted = sum(rejected.counts().values()) + 3 * REJECTED
    for queue in ("execution", "inference", "sweeps"):
        client.lpush(f"{deployment.prefix}.{queue}", *GARBAGE.values())

    deployment.client.submit(thread("jot"), machine="thread", id=one)
    assert deployment.ends(one)[0].state == "done"
    deployment.sees(
        lambda: sum(rejected.counts().values()) >= wanted,
        what=f"all are rejected, of {wanted} there are {rejected.counts()}",
    )

    assert all(process.alive for process in deployment.processes)
    assert sum(rejected.counts().values()) == wanted, "no message is rejected twice"
    assert all(
        client.llen(f"{deployment.prefix}.{name}") == 0 for name in ("execution", "inference")
    )
    assert all(message.reason for message in rejected.newest(100))


@pytest.mark.parametrize("what", MISSHAPEN)
def test_a_message_of_the_wrong_shape_is_rejected_and_ends_no_worker(
    joint_deployment: Deployment, client: redis.Redis, what: str
) -> None:
    deployment, one = joint_deployment, f"{joint_deployment.scope}-one"
    queue, rejected = f"{deployment.prefix}.execution", deployment.client.dispatch.rejected
    before = sum(rejected.counts().values())
    client.lpush(queue, misshapen(queue, **copy.deepcopy(MISSHAPEN[what])))

    deployment.client.submit(thread("jot"), machine="thread", id=one)
    assert deployment.ends(one)[0].state == "done"
    assert all(process.alive for process in deployment.processes)
    deployment.sees(
        lambda: sum(rejected.counts().values()) == before + 1, what="it is rejected once"
    )
    assert client.llen(queue) == 0
    assert client.hlen(f"{deployment.prefix}.unacked") == 0


def test_a_message_that_names_another_effect_starts_nothing(new_deployment: NewDeployment) -> None:
    deployment = new_deployment()
    deployment.client.submit(
        thread("jot_once", policy="plan_then_review"), machine="thread", id="one"
    )
    worker = deployment.worker(queues=("inference",))
    asked = deployment.reaches("one", "awaiting_confirmation")
    deployment.client.decide("one", "approve", proposal=asked.proposal)
    entry = next(e for e in deployment.client.show("one").entries if e.name == "execution")

    deployment.client.dispatch.publisher.app.send_task(
        "thread.inference", args=[entry.key("one")], queue=f"{deployment.prefix}.inference"
    )
    deployment.sees(deployment.client.dispatch.rejected.counts, what="it is rejected")

    left = next(e for e in deployment.client.show("one").entries if e.name == "execution")
    assert (left.state, left.attempts, left.no_restart) == ("owed", 0, False)
    worker.stop()
    deployment.full()
    assert deployment.ends("one")[0].state == "done"


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"INTERLOCK_LEASE_S": "-1"}, "INTERLOCK_LEASE_S"),
        ({"INTERLOCK_CAPABILITIES": "nowhere.at.all"}, "nowhere"),
        ({"INTERLOCK_MODEL": "nobody:knows", "INTERLOCK_MODEL_BASE_URL": ""}, "INTERLOCK_MODEL"),
        ({"INTERLOCK_STORE_URL": "redis://127.0.0.1:9/0"}, "the store does not answer"),
    ],
)
def test_a_wrong_setting_ends_the_start_of_a_worker_with_one_clear_sentence(
    new_deployment: NewDeployment, variables: dict[str, str], sentence: str
) -> None:
    deployment = new_deployment(**variables)
    process = deployment.worker(ready=False)
    until(lambda: not process.alive, what="it ended", within_s=120)

    lines = [line for line in process.output.splitlines() if "interlock: " in line]
    assert len(lines) == 1
    assert sentence in lines[0]
    assert "Traceback" not in process.output


def test_the_command_line_of_celery_names_a_wrong_setting_too(
    new_deployment: NewDeployment,
) -> None:
    environment = {**new_deployment().environment, "INTERLOCK_LEASE_S": "soon"}
    command = [sys.executable, "-m", "celery", "-A", "interlock.workers.main", "worker"]

    ended = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode != 0
    assert "INTERLOCK_LEASE_S='soon'" in ended.stderr.splitlines()[-1]


@pytest.mark.parametrize("task", sorted(handlers()))
def test_boot_refuses_a_stage_without_its_handler(new_deployment: NewDeployment, task: str) -> None:
    dispatch = new_deployment().client.dispatch
    runner = Runner(dispatch, Resources(dispatch.settings))
    rest = {name: run for name, run in handlers().items() if name != task}

    machine, _, effect = task.partition(".")
    with pytest.raises(MissingHandlerError, match=f"{effect}, an effect of {machine};"):
        register_effects(dispatch.publisher.app, runner, MACHINES, rest)
