"""A real Flower shows each effect as a task with a name that people can read."""

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

    def asked(path: str) -> Any:
        try:
            with urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
                return json.load(answer)
        except (URLError, ConnectionError):
            return {}

    try:
        deployment.full()
        # Flower sees what happens while it listens.
        deployment.sees(
            lambda: asked("/api/workers?refresh=true"), what="flower is up", within_s=60
        )
        deployment.client.submit(
            thread("jot", policy="plan_then_review"), machine="thread", id="one"
        )
        seen = deployment.reaches("one", "awaiting_confirmation")
        deployment.client.decide("one", "approve", proposal=seen.proposal)
        assert deployment.ends("one")[0].state == "done"
        split(deployment, [part()])
        tidied = thread("jot", policy="plan_then_review", source="witnessed")
        deployment.client.submit(tidied, machine="thread", id="tidied")
        deployment.reaches("tidied", "awaiting_confirmation")
        deployment.client.fire("tidied", "cleanup_requested")

        def tasks() -> dict[str, dict[str, Any]]:
            shown: dict[str, dict[str, Any]] = asked("/api/tasks")
            done = {one["name"] for one in shown.values() if one["state"] == "SUCCESS"}
            return shown if done >= EFFECTS else {}

        shown = deployment.sees(tasks, what="flower shows every effect as a success")
    finally:
        flower.terminate()
        flower.wait(20)

    execution = "thread.execution"
    # The arguments are the record and its version.
    run = next(
        one for one in shown.values() if one["name"] == execution and one["args"] == "one v9"
    )
    assert run["result"] is None or "execution_done -> done" in run["result"]
