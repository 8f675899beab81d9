"""Jobs of real commands for the end-to-end tests."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any
from uuid import uuid4

from interlock.kernel.event import Event
from interlock.kernel.record import Record
from interlock.systems.jobs.client import Graphs
from tests.end_to_end.deployment import Deployment

ASKS_A_PERSON = "intervention_required"
HANGS = "sleep 600"


def job(folder: Path, command: str = "", **more: Any) -> dict[str, Any]:
    """Return the payload of a job that needs no sign-off by a person.

    Without a command its worker is a capability, for which no process is started.
    """
    work = {"command": command} if command else {"capability": "jot"}
    executor = {**work, **more.pop("worker", {})}
    return {"phases": [{"worker": executor}], "folder": str(folder), "auto_approve": True, **more}


def answers(**reply: Any) -> str:
    """Return a command that writes this reply."""
    return f'echo {shlex.quote(json.dumps(reply))} > "$INTERLOCK_JOB_REPLY"'


def first_run(command: str, otherwise: str = "true") -> str:
    """Return a command that differs between the first run of a job and later runs."""
    return f"if [ $INTERLOCK_JOB_RUN = 1 ]; then {command}; else {otherwise}; fi"


def triggers(deployment: Deployment, job_id: str) -> list[str]:
    """Return the triggers of a record's events, in order."""
    return [event.trigger for event in deployment.events(job_id)]


def last(deployment: Deployment, job_id: str, trigger: str) -> Event:
    """Return the last event of this trigger."""
    return next(one for one in reversed(deployment.events(job_id)) if one.trigger == trigger)


class Bench:
    """The graph of one test: its jobs and their results."""

    def __init__(self, deployment: Deployment, folder: Path) -> None:
        self.deployment, self.folder = deployment, folder
        self.graphs, self.graph = Graphs(deployment.client), f"g{uuid4().hex[:8]}"

    def new(self, name: str, command: str = "", **more: Any) -> str:
        """Create an active job whose directory is in the folder of this test."""
        job_id = f"{self.graph}/{name}"
        payload = job(self.folder, command, dir=str(self.dir(job_id))) | more
        self.graphs.create(job_id, payload, held=False)
        return job_id

    def dir(self, job_id: str) -> Path:
        return self.folder / job_id.partition("/")[2]

    def reaches(self, job_id: str, *states: str) -> Record:
        return self.deployment.reaches(job_id, *states, within_s=120)

    def stops(self, job_id: str) -> tuple[str, str]:
        """Wait until a job needs an intervention; return the code and the detail of the failure."""
        failure = self.reaches(job_id, ASKS_A_PERSON).data["failure"]
        return failure["code"], failure["detail"]

    def goes_on(self, job_id: str, trigger: str) -> Event:
        """Wait until a trigger is fired for a job; return the event."""
        try:
            self.deployment.sees(
                lambda: trigger in triggers(self.deployment, job_id), what=trigger, within_s=120
            )
        except AssertionError as late:
            raise AssertionError(f"{late}\n{self.deployment.story(job_id)}") from None
        return last(self.deployment, job_id, trigger)

    def sees(self, file: str) -> None:
        """Wait for a file that a command writes in the folder."""
        self.deployment.sees((self.folder / file).exists, what=file, within_s=120)

    def spent(self, job_id: str) -> int:
        """Return the cost of a job in micro-dollars; no money may be reserved any more."""
        counters = self.deployment.client.show(job_id).counters
        assert counters.get("reserved.spent", 0) == 0
        return counters.get("tree.spent", 0) + counters.get("residue.spent", 0)
