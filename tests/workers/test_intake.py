"""Intake: plain Celery messages of producers that do not import Interlock, on a real worker."""

from __future__ import annotations

import base64
import json
import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from celery import Celery
from tenacity import stop_after_attempt, wait_none

from interlock.workers import producer_message
from interlock.workers.client import Client
from interlock.workers.gateways.server import EmbeddedServer, free_port
from tests.conftest import NewServer
from tests.damage import damaged, torn
from tests.end_to_end.deployment import Process
from tests.end_to_end.threads.test_bad_input import misshapen
from tests.fakes.proxy import FaultProxy
from tests.git.scene import make_repository
from tests.preloaded_process import Preloaded
from tests.servers import REFUSALS, refusing
from tests.systems.threads.threads import client_of, thread_payload
from tests.waiting import until

ROOT = Path(__file__).parents[2]
READY_S = 180.0
IMPATIENT_APP = "tests.workers.impatient_intake"


def task_request(**fields: Any) -> dict[str, Any]:
    return {"id": "b/three", "payload": {"title": "repair it", **fields}, "machine": "task"}


DAMAGED = 200
NewIntake = Callable[..., Process]


@pytest.fixture
def interlock(server: EmbeddedServer, prefix: str) -> Client:
    return client_of(server.url, prefix)


@pytest.fixture
def new_intake(preloaded: Preloaded, tmp_path: Path) -> Iterator[NewIntake]:
    """Return a function that starts an intake worker and waits until it consumes."""
    with ExitStack() as stack:

        def start(client: Client, url: str = "", **variables: str) -> Process:
            settings = {
                "INTERLOCK_STORE_URL": url or client.settings.store,
                "INTERLOCK_PREFIX": client.settings.prefix,
                "INTERLOCK_NAMESPACE": client.settings.namespace,
            }
            name = f"intake-{uuid.uuid4().hex[:6]}"
            options = ["-n", f"{name}@%h", "-P", "threads", "-c", "2", "-l", "INFO"]
            argv = ["-A", IMPATIENT_APP, "worker", *options, "--without-mingle", "--without-gossip"]
            log = tmp_path / f"{name}.log"
            environment = {**os.environ, **settings, **variables}
            process = Process(name, preloaded.start(argv, environment, log), log)
            stack.callback(process.kill)
            until(process.is_ready, what="it consumes", within_s=READY_S)
            return process

        yield start


def send(client: Client, *requests: Any) -> None:
    """Send plain messages, for which a producer needs the broker, the queue and the task's name."""
    with Celery(broker=client.settings.store, set_as_current=False) as producer:
        for request in requests:
            verb, answers, argument = "submit", None, request
            if isinstance(request, dict) and "send_task" in request:
                verb, answers, argument = request["send_task"]
            queue = f"{client.settings.namespace}.intake"
            producer.send_task(f"interlock.{verb}", [argument], queue=queue, reply_to=answers)


def push(client: Client, message: bytes) -> None:
    """Put bytes into the queue that are no Celery message."""
    client.dispatch.client.lpush(f"{client.settings.namespace}.intake", message)


def request(record_id: str, **fields: Any) -> dict[str, Any]:
    """Return a request in the documented form."""
    return {"id": record_id, "payload": thread_payload(), **fields}


def wait_until_they_exist(client: Client, *ids: str) -> None:
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
def test_a_malformed_message_does_not_stop_intake_and_is_acknowledged(
    interlock: Client, new_intake: NewIntake
) -> None:
    process = new_intake(interlock)
    queue = f"{interlock.settings.namespace}.intake"

    push(interlock, misshapen(queue, headers={"task": ["a"]}))
    push(interlock, misshapen(queue, body="###é"))
    # Celery would drop the first, stop the second at once and pass the third on to another queue.
    other = f"{interlock.settings.namespace}.other"
    link = {"task": "x", "args": [], "options": {"exchange": "", "routing_key": other}}
    push(interlock, with_options("two", {"expires": "2000-01-01T00:00:00+00:00"}, {}))
    push(interlock, with_options("three", {"timelimit": [0.001, None]}, {}))
    push(interlock, with_options("four", {}, {"callbacks": [link]}))
    push(interlock, with_options("five", {}, {"errbacks": "x"}))
    push(interlock, with_options("six", {"eta": "2100-01-01T00:00:00+00:00"}, {}))
    # Celery would run its own task, lose some of the others, and wait for ever for the rest.
    push(interlock, with_options("seven", {"task": "celery.map"}, {}))
    bodies: list[Any] = [[3, {}, {}], [[], 3, {}], [[request("eight")], {"self": 1}, {}]]
    bodies += [{"task": "x", "args": 3}, {"task": "x", "args": [], "kwargs": 3}]
    bodies += [[[], {}, 3], {"a": 1, "b": 2, "c": 3}]
    for body in bodies:
        task = None if "task" in body else "interlock.submit"
        content = json.dumps(body).encode()
        push(interlock, message(content, content_type="application/json", task=task))
    push(interlock, with_options("nine", {"shadow": [1]}, {}))
    push(interlock, with_options("ten", {"retries": "x"}, {}))
    send(interlock, request("one"))
    wait_until_they_exist(interlock, "one")

    assert process.alive
    assert sum(interlock.dispatch.rejected.counts().values()) == 17
    assert [row.id for row in interlock.list(machine="thread")] == ["one"]
    for each in nearly_right(DAMAGED):
        push(interlock, each)
    send(interlock, request("last"))
    wait_until_they_exist(interlock, "last")
    assert process.alive
    assert "failed at intake" not in interlock.dispatch.rejected.counts()
    assert not interlock.dispatch.client.exists(other)
    receipts = f"{interlock.settings.namespace}.unacked"
    until(
        lambda: not interlock.dispatch.client.hlen(receipts), what="every message is acknowledged"
    )


def nearly_right(number: int) -> Iterator[bytes]:
    """Yield messages that a worker cannot take, and some that it can."""
    for seed in range(number):
        chance = Random(seed)
        whole = json.loads(with_options(f"damaged-{seed}", {"retries": 0}, {"chain": None}))
        body = json.loads(base64.b64decode(whole["body"]))
        if chance.random() < 0.3:
            whole["body"] = base64.b64encode(json.dumps(damaged(body, chance)).encode()).decode()
        else:
            whole = damaged(whole, chance)
        text = json.dumps(whole).encode()
        yield torn(text, chance) if chance.random() < 0.3 else text


@pytest.mark.slow
def test_a_plain_message_creates_one_record_and_a_bad_one_is_rejected(
    interlock: Client, new_intake: NewIntake
) -> None:
    new_intake(interlock)

    send(interlock, request("one", priority=1), request("one", priority=1), request("two"))
    wait_until_they_exist(interlock, "one", "two")

    assert interlock.show("one").state == "awaiting_inference"
    assert interlock.show("one").priority == 1
    # The repository is on another computer, which checks it later.
    elsewhere = task_request(repo="/nowhere", agent="make")
    send(interlock, {**elsewhere, "id": "b/far"})
    until(lambda: interlock.list(machine="task"), what="the task exists")
    assert interlock.show("b/far").state == "open"
    assert len(interlock.list(machine="thread")) == 2

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
        task_request(signals=[{"type": "magic", "value": "x"}]),
        task_request(agent="no-such-command", repo=str(ROOT)),
        task_request(surprise=1),
        "only text",
        None,
    ]
    send(interlock, *wrong, request("last"))
    wait_until_they_exist(interlock, "last")
    wait_for_rejected(interlock, {"refused at intake": len(wrong)})

    push(interlock, message(b"\x80\x04no json", content_type="application/x-python-serialize"))
    push(interlock, message(b"[[], {}", content_type="application/json"))
    push(
        interlock, message(b'[["x"], {}, {}]', content_type="application/json", task="no.such.task")
    )
    push(interlock, message(b'{"x": 1}', content_type="application/json", task=None))
    push(interlock, message(b"[[], {}, {}]", content_type="application/json"))
    push(interlock, message(b'[[{}], {"id": "x"}, {}]', content_type="application/json"))
    send(interlock, request("after"))
    wait_until_they_exist(interlock, "after")
    until(
        lambda: sum(interlock.dispatch.rejected.counts().values()) == len(wrong) + 6, what="counted"
    )
    assert {row.id for row in interlock.list(machine="thread")} == {"one", "two", "last", "after"}
    rejected = interlock.dispatch.rejected.newest(100)
    assert len(rejected) == len(wrong) + 6
    assert all(message.reason for message in rejected)
    assert "colour: Extra inputs are not permitted" in " ".join(map(str, rejected))


def wait_for_rejected(client: Client, counts: Mapping[str, int]) -> None:
    """Wait until so many messages of each kind were rejected."""
    until(lambda: client.dispatch.rejected.counts() == counts, what=f"{counts} are rejected")


def message(body: bytes, *, content_type: str, task: str | None = "interlock.submit") -> bytes:
    """Return a message in the broker's form with this body."""
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


def with_options(
    record_id: str, headers: Mapping[str, Any], embedded: Mapping[str, Any], fields: Any = None
) -> bytes:
    """Return a message about a new record with these options of Celery."""
    asked = {**(fields or request(record_id)), "id": record_id}
    body = json.dumps([[asked], {}, embedded]).encode()
    changed = json.loads(message(body, content_type="application/json"))
    changed["headers"] |= headers
    return json.dumps(changed).encode()


@pytest.mark.slow
def test_a_producer_gets_its_answers_and_a_message_that_has_to_wait_is_read_again(
    interlock: Client, new_intake: NewIntake, tmp_path: Path
) -> None:
    new_intake(interlock)
    queue = f"{interlock.settings.namespace}.answers.importer"
    loop = {"repo": str(make_repository(tmp_path / "repository")), "command": "my-agent"}
    life = {"id": "owl/1", "machine": "loop", "payload": loop}

    send(interlock, asking(queue, "submit", life))
    assert answer(interlock, queue, "owl/1")["record"] == "owl/1"
    # It names another queue as the one that it came from, where nobody would read it again.
    late = json.loads(with_options("owl/2", {}, {}, life))
    late["properties"] |= {
        "reply_to": queue,
        "delivery_info": {"exchange": "", "routing_key": f"{queue}.x"},
    }
    push(interlock, json.dumps(late).encode())
    send(interlock, asking(queue, "submit", {"id": "three", "payload": "text"}))
    refusal = answer(interlock, queue, "three")
    assert (refusal["answer"], refusal["error"]) == ("rejected", "InvalidPayloadError")
    assert "payload" in refusal["reason"]
    # Two that no task of intake reads: their answers name them by the correlation id alone.
    unreadable: list[tuple[dict[str, Any], str]] = [
        ({"task": "interlock.fly"}, "unknown task: 'interlock.fly'"),
        ({"expires": 1}, "refused options: send the message without expires"),
    ]
    for headers, reason in unreadable:
        unread = json.loads(with_options("four", headers, {}))
        unread["properties"]["reply_to"] = queue
        push(interlock, json.dumps(unread).encode())
        assert answer(interlock, queue, unread["headers"]["id"])["reason"] == reason
    # An answer is sent before its message is kept.
    refusals = {"refused at intake": 1, "unknown task": 1, "refused options": 1}
    wait_for_rejected(interlock, refusals)

    # The name of its agent is in use, and the message waits until the agent has stopped.
    kept = partial(interlock.dispatch.client.hvals, f"{interlock.settings.namespace}.unacked")
    until(lambda: any(b'"retries": 1' in each for each in kept()), what="it was sent again")
    send(interlock, asking(queue, "cancel", {"id": "m1", "record": "owl/1"}))
    assert answer(interlock, queue, "owl/2")["record"] == "owl/2"

    # Messages of jobs come before those that they depend on, more than intake reads at once.
    steps = [("d", ["g/c"]), ("c", ["g/b"]), ("b", ["g/a"]), ("a", [])]
    work = {"phases": [{"worker": {"command": "true"}}]}
    jobs = [
        {"id": f"g/{name}", "machine": "job", "payload": {**work, "depends_on": after}}
        for name, after in steps
    ]
    send(interlock, *jobs)
    until(lambda: len(interlock.list(machine="job")) == len(steps), what="all jobs exist")

    # An answer that nobody can ever take is kept, and its message is not read for ever.
    broken = f"{interlock.settings.namespace}.answers.broken"
    interlock.dispatch.client.set(broken, "no queue")
    send(interlock, asking(broken, "submit", request("four")))
    counts = interlock.dispatch.rejected.counts
    until(lambda: counts().get("answer not taken"), what="the answer is kept")
    until(lambda: not kept(), what="every message is acknowledged")
    assert counts()["answer not taken"] == 1

    # Only a queue for answers is written to.
    other = f"{interlock.settings.namespace}.execution"
    send(interlock, asking(other, "submit", request("one")))
    wait_until_they_exist(interlock, "one")
    assert not interlock.dispatch.client.exists(other)


def asking(queue: str, verb: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message that asks for an answer in this queue."""
    return {"send_task": [verb, queue, request]}


def answer(client: Client, queue: str, message_id: str) -> dict[str, Any]:
    """Take answers out of a producer's queue until that to a message; each may come twice.

    The id is that of the request, or of the Celery message.
    """
    while True:
        taken: Any = client.dispatch.client.brpop([queue], 60)
        assert taken, f"no answer to {message_id} came"
        message = json.loads(taken[1])
        body: dict[str, Any] = json.loads(base64.b64decode(message["body"]))
        if message_id in (body.get("id"), message["properties"]["correlation_id"]):
            return body


@pytest.mark.slow
def test_a_message_whose_worker_is_killed_before_its_record_exists_is_delivered_again(
    interlock: Client, new_intake: NewIntake, tmp_path: Path
) -> None:
    died = tmp_path / "died"
    process = new_intake(interlock, DIES_ONCE=str(died), VISIBILITY_S="2")
    send(interlock, request("one"))
    until(lambda: not process.alive, what="the worker is killed", within_s=READY_S)
    assert died.exists()
    assert interlock.list(machine="thread") == []

    new_intake(interlock, DIES_ONCE=str(died), VISIBILITY_S="2")

    wait_until_they_exist(interlock, "one")
    assert interlock.show("one").version == 2


@pytest.mark.slow
def test_nothing_is_lost_while_the_store_is_away(
    interlock: Client,
    new_intake: NewIntake,
    new_proxy: Callable[[int], FaultProxy],
    server: EmbeddedServer,
) -> None:
    proxy = new_proxy(server.port)
    # The broker answers: messages are received, and must be neither acknowledged nor dropped.
    variables = {"INTERLOCK_BROKER_URL": server.url, "VISIBILITY_S": "2"}
    process = new_intake(interlock, url=proxy.url, **variables)
    proxy.refuse()
    before = proxy.connections
    # More than it takes at once, of each kind that it can only keep: what it does not understand.
    rejected = [
        with_options("two", {"expires": "2000-01-01T00:00:00+00:00"}, {}),
        message(b"[[], {}", content_type="application/json"),
        message(b"[[], {}, {}]", content_type="application/json", task="no.such.task"),
        message(b'{"x": 1}', content_type="application/json", task=None),
        message(b"\x80\x04no json", content_type="application/x-python-serialize"),
        b"no message",
    ]
    for each in rejected:
        push(interlock, each)
    send(interlock, *[request(f"r{number}") for number in range(20)])
    # Each try to keep one makes a few connections, so that some were refused for good.
    until(lambda: proxy.connections > before + 50, what="intake tries to reach the store")
    assert interlock.list(machine="thread") == []

    proxy.heal()

    wait_until_they_exist(interlock, *[f"r{number}" for number in range(20)])
    assert process.alive

    def kept() -> set[tuple[str, str]]:
        # One that is read again while it is being kept is kept twice.
        return {(one.kind, one.body) for one in interlock.dispatch.rejected.newest(1_000)}

    until(lambda: len(kept()) == len(rejected), what="each of the others is kept")
    receipts = f"{interlock.settings.namespace}.unacked"
    until(lambda: not interlock.dispatch.client.hlen(receipts), what="all are acknowledged")


def test_a_message_whose_fault_cannot_be_kept_yet_is_delivered_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> str:
        raise RuntimeError("a bug")

    monkeypatch.setattr(producer_message, "accept", fail)
    nobody = client_of(f"redis://127.0.0.1:{free_port()}/0", "nobody")
    receive_once = producer_message.receive.retry_with(stop=stop_after_attempt(1))

    # The task gives the message back for such an error, and for no other.
    with pytest.raises(producer_message.TEMPORARY_ERRORS):
        receive_once(nobody, "submit", [request("one")], {})


@pytest.mark.parametrize("why", [why for why in REFUSALS if why != "wants a password"])
def test_a_message_is_given_back_while_the_store_refuses_to_write_and_the_log_says_so_once(
    new_server: NewServer, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    client = client_of(new_server().url, "refused")
    receive_twice = producer_message.receive.retry_with(
        stop=stop_after_attempt(2), wait=wait_none()
    )

    with refusing(client.dispatch.client, why):
        for message in (request("one"), request("not an id")):
            with pytest.raises(producer_message.TEMPORARY_ERRORS):
                receive_twice(client, "submit", [message], {})

    answer = {"id": "one", "answer": "accepted", "record": "one"}
    assert receive_twice(client, "submit", [request("one")], {}) == answer
    assert client.dispatch.rejected.counts() == {}
    assert [line.getMessage().partition(": ")[0] for line in caplog.records] == [
        "this process waits for the store",
        "the store does not refuse this process any more",
    ]
