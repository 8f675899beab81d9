"""Flower is told of effects that a process holds outside of Celery, and how they end."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Queue
from threading import Event
from typing import Any
from uuid import uuid4

import pytest
import redis
from kombu.exceptions import OperationalError

from interlock.kernel.event import Cause
from interlock.kernel.store.commands import Call, Warrant
from interlock.kernel.store.leases import Lease
from interlock.workers.client import Client
from interlock.workers.engine import task_events
from interlock.workers.engine.task_events import TaskEvent, TaskEvents
from interlock.workers.gateways.server import EmbeddedServer
from tests.systems.threads.threads import bring, client_of

WORKER = "worker@here"
BEGIN = ["task-received", "task-started"]
ENDS = ("task-succeeded", "task-failed", "task-revoked")
FAILURE = {"code": "invalid_output", "detail": "it said nothing"}
DONE = {"proposal": {"payload": {"intent": "to have paper"}, "confidence": 0.1}}


@contextmanager
def received(server: EmbeddedServer, prefix: str) -> Iterator[list[dict[str, Any]]]:
    """Receive the events of the block, as Flower does, up to the end of a task."""
    found: list[dict[str, Any]] = []
    with redis.Redis.from_url(server.url) as store, store.pubsub() as channel:
        channel.psubscribe(f"/0.celeryev-{prefix}*")
        assert channel.get_message(timeout=180), "it is subscribed"
        yield found
        while not (found and found[-1]["type"] in ENDS):
            message = channel.get_message(ignore_subscribe_messages=True, timeout=180)
            assert message, f"the last event comes after {found}"
            event = json.loads(base64.b64decode(json.loads(message["data"])["body"]))
            if event["hostname"] == WORKER:
                found.append(event)


def claimed(client: Client) -> Lease:
    """Claim the inference of a new thread."""
    record = bring(client, "one", "awaiting_inference")
    (entry,) = record.entries
    effect = client.dispatch.effect("thread", entry.name)
    lease = client.dispatch.leases.claim(
        entry.key("one"), effect, nonce=uuid4().hex[:8], holder="test", schema=record.schema
    )
    assert isinstance(lease, Lease)
    return lease


@pytest.mark.parametrize(
    ("triggers", "end"),
    [
        (
            {"inference_done": DONE},
            {
                "type": "task-succeeded",
                "result": "'inference_done -> awaiting_intent_confirmation'",
            },
        ),
        (
            {"inference_failed": FAILURE},
            {
                "type": "task-failed",
                "exception": "'inference_failed -> awaiting_intent_clarification: it said nothing'",
            },
        ),
        ({}, {"type": "task-revoked"}),
    ],
    ids=["succeeded", "failed", "lost"],
)
def test_an_effect_is_shown_from_its_begin_to_its_end(
    server: EmbeddedServer, prefix: str, triggers: dict[str, Any], end: dict[str, str]
) -> None:
    client = client_of(server.url, prefix)
    lease = claimed(client)
    events = TaskEvents(client.dispatch, WORKER)

    with received(server, prefix) as found:
        events.begin(lease)
        for trigger, payload in ({"inference_started": {}} | triggers).items():
            warrant = Warrant.token(lease.suffix, lease.token)
            call = Call(Cause("inference"), f"{lease.token}:{trigger}:2", warrant)
            client.dispatch.lifecycle.fire("one", trigger, payload, call)
        events.close()

    assert [event["type"] for event in found] == [*BEGIN, end["type"]]
    assert {(event["uuid"], event["hostname"]) for event in found} == {(lease.key, WORKER)}
    assert (found[0]["name"], found[0]["args"]) == ("thread.inference", "one v2")
    assert end.items() <= found[-1].items()


@pytest.mark.parametrize("failure", [OperationalError("away"), KeyError("a bug")])
def test_an_event_that_is_lost_harms_nothing_and_the_next_one_is_sent(
    server: EmbeddedServer, prefix: str, failure: Exception
) -> None:
    def fail() -> list[TaskEvent]:
        raise failure

    client = client_of(server.url, prefix)
    events = TaskEvents(client.dispatch, WORKER)

    with received(server, prefix) as found:
        events.put(fail)
        events.begin(claimed(client))
        events.close()

    assert [event["type"] for event in found] == [*BEGIN, "task-revoked"]


def test_many_lost_effects_are_shown_by_one_thread(
    server: EmbeddedServer, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dispatch, shown, may_end = client_of(server.url, prefix).dispatch, Queue[str](), Event()

    def send(_: TaskEvents, events: list[TaskEvent]) -> None:
        shown.put(str(events[0][1]["uuid"]))
        assert may_end.wait(180)

    monkeypatch.setattr(TaskEvents, "_send", send)
    monkeypatch.setattr(task_events, "this_worker", lambda: WORKER)
    for number in range(3):
        task_events.show_lost(dispatch, f"b/{number}:1.0", "its host is gone")

    # The first is still being sent, as to a broker that does not answer.
    assert shown.get(timeout=180) == "b/0:1.0"
    assert shown.empty()
    may_end.set()
    assert [shown.get(timeout=180) for _ in range(2)] == ["b/1:1.0", "b/2:1.0"]
