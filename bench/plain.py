"""The other side: Celery as it comes, with the settings that its manual names for sure delivery."""

from __future__ import annotations

import os

from celery import Celery, chain

from bench.machine import EFFECTS
from bench.marks import FOLDER, Marks
from interlock.workers.engine.affinity import Affinity, tune_when_ready

BROKER = "BENCH_BROKER"
TUNED = "BENCH_TUNED"
MARKS = Marks()


def make(broker: str) -> Celery:
    """Return an app with one empty task. What is not named here is Celery's default."""
    made = Celery("plain", broker=broker, set_as_current=False)
    made.conf.update(task_acks_late=True, task_ignore_result=True, task_serializer="json")

    def empty() -> None:
        MARKS.body()

    made.task(empty, name="empty", shared=False)
    return made


def submit(made: Celery, chains: int) -> None:
    """Publish chains of five."""
    five = chain(*(made.tasks["empty"].si() for _ in range(EFFECTS)))
    for _ in range(chains):
        five.apply_async()


app = make(os.environ.get(BROKER, ""))
if FOLDER in os.environ:
    MARKS.listen()
if TUNED in os.environ:
    tune_when_ready(Affinity(enabled=True))
