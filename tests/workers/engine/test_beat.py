"""Beat sends each sweep once a period, whatever the wall clock says, and none into a full queue."""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import redis
from celery import Celery

from interlock.workers.engine import beat
from interlock.workers.engine.beat import SweepScheduler
from interlock.workers.engine.celery_app import SWEEPS_QUEUE, make_app
from interlock.workers.engine.liveness import write_liveness_file
from interlock.workers.engine.sweeper import register_sweeps
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.systems import sweeps
from tests.conftest import NewServer
from tests.servers import REFUSALS, refusing
from tests.waiting import until
from tests.workers.engine.running import Running, settings_for

SWEEPS = {"sweep.orphans", "sweep.stalls", "sweep.assignments"}

NewScheduler = Callable[[Celery], SweepScheduler]


@pytest.fixture
def new_scheduler() -> Iterator[NewScheduler]:
    """Return a function that makes the scheduler of an app, which is closed after the test."""
    with ExitStack() as stack:

        def build(app: Celery) -> SweepScheduler:
            scheduler = SweepScheduler(app)
            stack.callback(scheduler.close)
            return scheduler

        yield build


@pytest.fixture
def app(server: EmbeddedServer, prefix: str) -> Celery:
    return app_over(server, prefix)


def app_over(server: EmbeddedServer, prefix: str) -> Celery:
    """Return the app of a beat whose sweeps are due all the time."""
    settings = settings_for(server.url, prefix, INTERLOCK_SWEEP_PERIOD_S="0.05")
    running = Running(settings)
    app = make_app(settings, ("assignment", SWEEPS_QUEUE))
    register_sweeps(app, running.dispatch, sweeps())
    write_liveness_file(app, None)
    return app


# Celery itself waits for a broker to which beat cannot connect, and logs that.
@pytest.mark.parametrize("why", [why for why in REFUSALS if why != "wants a password"])
def test_a_broker_that_refuses_is_logged_once_and_the_sweeps_are_sent_when_it_accepts(
    new_server: NewServer,
    new_scheduler: NewScheduler,
    prefix: str,
    why: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = new_server()
    scheduler = new_scheduler(app_over(server, prefix))
    with redis.Redis.from_url(server.url) as client:
        with refusing(client, why):
            scheduler.tick()
            assert [line.getMessage()[:34] for line in warnings(caplog)] == [
                "this process waits for the broker:"
            ]

        def is_sent() -> bool:
            scheduler.tick()
            return bool(client.llen(f"{prefix}.sweeps"))

        until(is_sent, what="the sweeps are sent")
    assert [line.getMessage() for line in warnings(caplog)[1:]] == [
        "the broker does not refuse this process any more"
    ]


def warnings(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """Return the lines of the log that are more than information."""
    return [line for line in caplog.records if line.levelno >= logging.WARNING]


def sent(client: redis.Redis, prefix: str) -> list[dict[str, Any]]:
    """Take and return the headers of every sweep that is in its queue."""
    messages: list[str | bytes] = []
    for queue in (f"{prefix}.sweeps", f"{prefix}.assignment"):
        messages += client.lrange(queue, 0, -1)
        client.delete(queue)
    return [json.loads(message)["headers"] for message in messages]


def test_every_sweep_is_sent_at_the_start_and_never_expires(
    app: Celery, new_scheduler: NewScheduler, client: redis.Redis, prefix: str
) -> None:
    wait_s = new_scheduler(app).tick()

    messages = sent(client, prefix)
    seldom = {"sweep.moves", "sweep.prune", "sweep.slots", "sweep.canary"}
    assert {message["task"] for message in messages} == {*SWEEPS, *seldom}
    assert [message["expires"] for message in messages] == [None] * len(messages)
    assert 0 <= wait_s <= 0.05


def test_a_wall_clock_that_is_set_back_stops_no_sweep(
    app: Celery,
    new_scheduler: NewScheduler,
    client: redis.Redis,
    prefix: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scheduler = new_scheduler(app)
    scheduler.tick()
    sent(client, prefix)
    wall_s = time.time
    monkeypatch.setattr(time, "time", lambda: wall_s() - 600)
    monkeypatch.setattr(app, "now", lambda: datetime.now(UTC) - timedelta(minutes=10))
    tasks: set[str] = set()

    def all_sent_again() -> bool:
        scheduler.tick()
        tasks.update(message["task"] for message in sent(client, prefix))
        return tasks >= SWEEPS

    until(all_sent_again, what="every sweep is sent again")


def test_no_sweep_is_sent_into_a_queue_that_nobody_serves(
    app: Celery,
    new_scheduler: NewScheduler,
    client: redis.Redis,
    prefix: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(beat, "COUNT_PERIOD_S", 0.0)
    monkeypatch.setattr(beat, "WAITING_MAX", 5)
    scheduler = new_scheduler(app)

    def queue_is_full() -> bool:
        scheduler.tick()
        return client.llen(f"{prefix}.sweeps") > 5

    until(queue_is_full, what="more than five sweeps wait")
    waiting = client.llen(f"{prefix}.sweeps")
    for _ in range(4):
        scheduler._due_at = dict.fromkeys(scheduler.schedule, 0.0)
        scheduler.tick()

    assert client.llen(f"{prefix}.sweeps") == waiting


def test_sweeps_are_sent_again_as_soon_as_a_full_queue_is_served(
    app: Celery,
    new_scheduler: NewScheduler,
    client: redis.Redis,
    prefix: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(beat, "COUNT_PERIOD_S", math.inf)
    monkeypatch.setattr(beat, "WAITING_MAX", 1)
    client.rpush(f"{prefix}.sweeps", *range(2))
    scheduler = new_scheduler(app)
    scheduler.tick()
    assert client.llen(f"{prefix}.sweeps") == 2

    client.delete(f"{prefix}.sweeps")

    def is_sent() -> bool:
        scheduler.tick()
        return bool(client.llen(f"{prefix}.sweeps"))

    until(is_sent, what="a sweep is sent")
