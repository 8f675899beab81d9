"""A workflow of tests whose steps, and Celery's signals about them, write lines to a file."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any, Literal

from celery import current_task, signals

from interlock import Data, Workflow

GATE_POLL_S = 0.01


class Journey(Data):
    """How many steps are left; the first step waits until a file is there."""

    steps: int
    gate: str = ""


journey = Workflow("journey", Journey, start="left")


def record(what: str, task_id: str, **more: Any) -> None:
    """Write what happened, and of which task."""
    if folder := os.environ.get("DEPLOYMENT_FOLDER"):
        with (Path(folder) / "journeys.jsonl").open("a") as file:
            file.write(json.dumps({"what": what, "id": task_id, **more}) + "\n")


def step(data: Journey) -> bool:
    """Take one step; return whether one is left."""
    request = current_task.request
    fields = {name: str(value) for name, value in vars(request).items() if value is not None}
    record("begun", request.id, request=fields)
    while data.gate and not Path(data.gate).exists():
        time.sleep(GATE_POLL_S)
    data.gate, data.steps = "", data.steps - 1
    return data.steps > 0


@journey.step
def left(data: Journey) -> Literal["right", "done"]:
    return "right" if step(data) else "done"


@journey.step
def right(data: Journey) -> Literal["left", "done"]:
    return "left" if step(data) else "done"


journey.ends(done=True)


@signals.task_received.connect(weak=False)
def received(request: Any, **_: Any) -> None:
    record("received", request.id)


@signals.task_prerun.connect(weak=False)
def prerun(task_id: str, **_: Any) -> None:
    record("prerun", task_id)


@signals.task_success.connect(weak=False)
def success(sender: Any, **_: Any) -> None:
    record("success", sender.request.id)


@signals.task_postrun.connect(weak=False)
def postrun(task_id: str, **_: Any) -> None:
    record("postrun", task_id)
