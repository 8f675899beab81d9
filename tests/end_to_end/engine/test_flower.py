"""A real Flower shows each effect as a Celery task with a readable name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

from interlock.kernel.machines import MACHINES
from interlock.workers.gateways.server import free_port
from tests.end_to_end.conftest import NewDeployment
from tests.end_to_end.deployment import ROOT, thread
from tests.end_to_end.threads.test_families import part, split

EFFECTS = {f"thread.{name}" for name in MACHINES["thread"].effects}


def test_flower_shows_every_effect_of_a_thread_by_a_readable_name(
    new_deployment: NewDeployment,
) -> None:
    deployment, port = new_deployment(), free_port()
    command = [sys.executable, "-m", "celery", "-A", "interlock.workers.main", "flower"]
    command += ["--address=127.0.0.1", f"--port={port}"]
    environment = {**os.environ, **deployment.environment, "FLOWER_UNAUTHENTICATED_API": "true"}
    with (deployment.folder / "flower.log").open("wb") as log:
        flower = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)

    def get(path: str) -> Any:
        try:
            with urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
                return json.load(answer)
        except (URLError, ConnectionError):
            return {}

    try:
        deployment.full()
        # Flower shows only tasks that run while it listens.
        deployment.sees(lambda: get("/api/workers?refresh=true"), what="flower is up", within_s=60)
        deployment.client.submit(
            thread("jot", policy="plan_then_review"), machine="thread", id="one"
        )
        record = deployment.reaches("one", "awaiting_confirmation")
        deployment.client.decide("one", "approve", proposal=record.proposal)
        assert deployment.ends("one")[0].state == "done"
        split(deployment, [part()])
        payload = thread("jot", policy="plan_then_review", source="witnessed")
        deployment.client.submit(payload, machine="thread", id="tidied")
        deployment.reaches("tidied", "awaiting_confirmation")
        deployment.client.fire("tidied", "cleanup_requested")

        def tasks() -> dict[str, dict[str, Any]]:
            shown: dict[str, dict[str, Any]] = get("/api/tasks")
            done = {task["name"] for task in shown.values() if task["state"] == "SUCCESS"}
            return shown if done >= EFFECTS else {}

        shown = deployment.sees(tasks, what="flower shows every effect as a success")
    finally:
        flower.terminate()
        flower.wait(60)

    execution = "thread.execution"
    # The arguments are the record and its version.
    run = next(
        task for task in shown.values() if task["name"] == execution and task["args"] == "one v9"
    )
    assert run["result"] is None or "execution_done -> done" in run["result"]
