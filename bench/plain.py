"""The app to compare with: plain Celery, with its manual's settings for reliable delivery."""

from __future__ import annotations

import os
from collections.abc import Callable

from celery import Celery, chain
from redis import Redis

from bench.bodies import FOLDER
from bench.machine import EFFECTS
from bench.marks import MARKS
from interlock.workers.engine.affinity import Affinity, tune_when_ready

BROKER = "BENCH_BROKER"
TUNED = "BENCH_TUNED"
RESULTS = "BENCH_RESULTS"


def make(broker: str, *, results: bool = False) -> Celery:
    """Return an app with one empty task. All other settings are Celery's defaults.

    With `results` the state of each task is kept in the broker's server, as its result.
    """
    celery_app = Celery("plain", broker=broker, set_as_current=False)
    celery_app.conf.update(task_acks_late=True, task_serializer="json")
    celery_app.conf.update({"result_backend": broker} if results else {"task_ignore_result": True})

    def empty() -> None:
        MARKS.body()

    celery_app.task(empty, name="empty", shared=False)
    return celery_app


def submit(celery_app: Celery, chains: int) -> None:
    """Publish chains of five empty tasks."""
    five = chain(*(celery_app.tasks["empty"].si() for _ in range(EFFECTS)))
    for _ in range(chains):
        five.apply_async()


def idle_check(client: Redis) -> Callable[[], bool]:
    """Return a check, to be repeated, whether the workers have no message left.

    While a worker receives a message, the message is in no list, and a long one is for most of the
    time. So nothing is left only if three looks find no message, and none was published meanwhile.
    """
    looks, published = 0, -1

    def is_idle() -> bool:
        nonlocal looks, published
        before, published = published, client.info("commandstats")["cmdstat_lpush"]["calls"]
        waits = client.llen("celery") or client.hlen("unacked")
        looks = 0 if waits or published != before else looks + 1
        return looks >= 3

    return is_idle


app = make(os.environ.get(BROKER, ""), results=RESULTS in os.environ)
if FOLDER in os.environ:
    MARKS.listen()
if TUNED in os.environ:
    tune_when_ready(Affinity(enabled=True))
