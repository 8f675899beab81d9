"""Intake: plain Celery messages of producers that import nothing of ours, on a real worker."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from interlock.workers.client import Client
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.processes.bound import end_bound, start_bound
from tests.end_to_end.threads.test_bad_input import misshapen
from tests.fakes.proxy import FaultProxy
from tests.waiting import until
from tests.workers.threads.threads import client_of, thread_payload

ROOT = Path(__file__).parents[2]
READY_S = 60.0
# What a producer needs to know: the broker, the queue, the task's name. None of our code.
PRODUCER = """
import json, sys
from celery import Celery
queue, requests = sys.argv[2], json.load(sys.stdin)
app = Celery(broker=sys.argv[1])
for request in requests:
    app.send_task("interlock.submit", [request], queue=queue)
assert not [name for name in sys.modules if name.partition(".")[0] in ("workers", "kernel")]
"""
# The intake app as it is deployed, which hands an unacknowledged message out again after a moment
# instead of a minute, and which dies at the first message if it is told to.
IMPATIENT = """
import os, signal
from interlock.workers import intake
intake.app.conf.broker_transport_options |= {"visibility_timeout": 2}
if os.environ.get("DIES_ONCE") and not os.path.exists(os.environ["DIES_ONCE"]):
    def die(*_):
        open(os.environ["DIES_ONCE"], "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    intake.accept = die
app = intake.app
"""


def task(**more: Any) -> dict[str, Any]:
    return {"id": "b/three", "payload": {"title": "mend it", **more}, "machine": "task"}


NewIntake = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def here(server: EmbeddedServer, prefix: str) -> Client:
    return client_of(server.url, prefix)


@pytest.fixture
def new_intake(tmp_path: Path) -> Iterator[NewIntake]:
    """Return what starts an intake worker for a client's store and waits until it consumes."""
    with ExitStack() as stack:
        (tmp_path / "impatient.py").write_text(IMPATIENT)

        def start(client: Client, url: str = "", **variables: str) -> subprocess.Popen[bytes]:
            log = tmp_path / f"intake-{uuid.uuid4().hex[:6]}.log"
            settings = {
                "INTERLOCK_STORE_URL": url or client.settings.store_url,
                "INTERLOCK_PREFIX": client.settings.prefix,
                "INTERLOCK_NAMESPACE": client.settings.namespace,
                "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}",
            }
            command = [sys.executable, "-m", "celery", "-A", "impatient", "worker"]
            options = ["-n", f"{log.stem}@%h", "-P", "threads", "-c", "2", "-l", "INFO"]
            quick = ["--without-mingle", "--without-gossip"]
            keeper = start_bound(
                [*command, *options, *quick],
                folder=tmp_path,
                output=stack.enter_context(log.open("wb")),
                grace_s=10,
                environment={**os.environ, **settings, **variables},
            )
            stack.callback(end_bound, keeper, patience_s=15)
            until(lambda: b" ready." in log.read_bytes(), what="it consumes", within_s=READY_S)
            return keeper

        yield start


def send(client: Client, *requests: Any) -> None:
    """Send messages as a producer would, from a process that imports nothing of ours."""
    queue = f"{client.settings.namespace}.intake"
    subprocess.run(
        [sys.executable, "-c", PRODUCER, client.settings.store_url, queue],
        input=json.dumps(requests),
        text=True,
        check=True,
        cwd="/",
    )


def push(client: Client, message: bytes) -> None:
    """Put bytes in the queue, as somebody does who knows nothing of Celery."""
    client.dispatch.client.lpush(f"{client.settings.namespace}.intake", message)


def request(record_id: str, **more: Any) -> dict[str, Any]:
    """Return a request as the documents have it."""
    return {"id": record_id, "payload": thread_payload(), **more}


def exist(client: Client, *ids: str) -> None:
    """Wait until these records exist and have begun."""
    wanted = set(ids)
    until(
        lambda: (
            wanted <= {row.id for row in client.list(machine="thread") if row.state != "proposed"}
        ),
        what=f"{ids} exist",
        within_s=READY_S,
    )


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_a_message_of_the_wrong_shape_ends_no_intake_and_is_not_kept(
    here: Client, new_intake: NewIntake
) -> None:
    process = new_intake(here)
    queue = f"{here.settings.namespace}.intake"

    push(here, misshapen(queue, headers={"task": ["a"]}))
    push(here, misshapen(queue, body="###é"))
    send(here, request("one"))
    exist(here, "one")

    assert process.poll() is None
    assert sum(here.dispatch.rejected.counts().values()) == 2
    until(lambda: not here.dispatch.client.hlen("unacked"), what="no receipt is owed")


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_a_plain_message_bears_a_record_once_and_a_bad_one_is_set_aside(
    here: Client, new_intake: NewIntake
) -> None:
    new_intake(here)

    send(here, request("one", priority=1), request("one", priority=1), request("two"))
    exist(here, "one", "two")

    assert here.show("one").state == "awaiting_inference"
    assert here.show("one").priority == 1
    # Its repository is on another machine, which will look at it.
    elsewhere = task(repo="/nowhere", agent="make")
    send(here, {**elsewhere, "id": "b/far"})
    until(lambda: here.list(machine="task"), what="the task is born")
    assert here.show("b/far").state == "open"
    assert len(here.list(machine="thread")) == 2

    wrong: list[Any] = [
        {"id": "one", "payload": thread_payload("Pens")},
        {"payload": thread_payload()},
        {"id": "three"},
        {"id": "three", "payload": "text"},
        {"id": "three", "payload": thread_payload(), "colour": "blue"},
        {"id": "three", "payload": thread_payload(), "priority": "high"},
        {"id": "three", "payload": thread_payload(), "priority": True},
        {"id": "three", "payload": thread_payload(), "machine": "washing"},
        {"id": "three", "payload": thread_payload(), "machine": 3},
        {"id": "three", "payload": thread_payload(colour="blue")},
        {"id": "not an id", "payload": thread_payload()},
        {"id": "three", "payload": {"title": "no backlog"}, "machine": "task"},
        task(signals=[{"type": "magic", "value": "x"}]),
        task(agent="no-such-command", repo=str(ROOT)),
        task(surprise=1),
        "only text",
        None,
    ]
    send(here, *wrong, request("last"))
    exist(here, "last")
    refused(here, {"refused at intake": len(wrong)})

    push(here, message(b"\x80\x04no json", content_type="application/x-python-serialize"))
    push(here, message(b"[[], {}", content_type="application/json"))
    push(here, message(b'[["x"], {}, {}]', content_type="application/json", task="no.such.task"))
    push(here, message(b'{"x": 1}', content_type="application/json", task=None))
    push(here, message(b"[[], {}, {}]", content_type="application/json"))
    push(here, message(b'[[{}], {"id": "x"}, {}]', content_type="application/json"))
    send(here, request("after"))
    exist(here, "after")
    until(lambda: sum(here.dispatch.rejected.counts().values()) == len(wrong) + 6, what="counted")
    assert {row.id for row in here.list(machine="thread")} == {"one", "two", "last", "after"}
    kept = here.dispatch.rejected.newest(100)
    assert len(kept) == len(wrong) + 6
    assert all(one.reason for one in kept)
    assert "no such field" in " ".join(one.reason for one in kept)


def refused(client: Client, counts: Mapping[str, int]) -> None:
    """Wait until so many messages of each kind were set aside."""
    until(lambda: client.dispatch.rejected.counts() == counts, what=f"{counts} are set aside")


def message(body: bytes, *, content_type: str, task: str | None = "interlock.submit") -> bytes:
    """Return a message in the broker's form, with a body of one's own."""
    tag = str(uuid.uuid4())
    headers = {"id": tag, "task": task, "lang": "py", "root_id": tag} if task else {}
    return json.dumps(
        {
            "body": base64.b64encode(body).decode(),
            "content-encoding": "utf-8",
            "content-type": content_type,
            "headers": headers,
            "properties": {
                "body_encoding": "base64",
                "correlation_id": tag,
                "delivery_info": {"exchange": "", "routing_key": "x"},
                "delivery_mode": 2,
                "delivery_tag": tag,
                "priority": 0,
            },
        }
    ).encode()


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_a_message_whose_worker_is_killed_before_the_record_exists_comes_again(
    here: Client, new_intake: NewIntake, tmp_path: Path
) -> None:
    died = tmp_path / "died"
    keeper = new_intake(here, DIES_ONCE=str(died))
    send(here, request("one"))
    until(lambda: keeper.poll() is not None, what="the worker is killed", within_s=READY_S)
    assert died.exists()
    assert here.list(machine="thread") == []

    new_intake(here, DIES_ONCE=str(died))

    exist(here, "one")
    assert here.show("one").version == 2


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_nothing_is_lost_while_the_store_is_away(
    here: Client,
    new_intake: NewIntake,
    new_proxy: Callable[[int], FaultProxy],
    server: EmbeddedServer,
) -> None:
    proxy = new_proxy(server.port)
    # The broker is there: messages are received, and must be neither confirmed nor dropped.
    keeper = new_intake(here, url=proxy.url, INTERLOCK_BROKER_URL=server.url)
    proxy.refuse()
    before = proxy.connections
    send(here, *[request(f"r{number}") for number in range(20)])
    until(lambda: proxy.connections > before, what="intake tries to reach the store")
    assert here.list(machine="thread") == []

    proxy.heal()

    exist(here, *[f"r{number}" for number in range(20)])
    assert keeper.poll() is None
    assert here.dispatch.rejected.counts() == {}
