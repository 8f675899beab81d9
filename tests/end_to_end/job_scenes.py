"""What tests of jobs share: jobs that come to stand in any state, and commands that answer."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

from kernel.event import Cause, Event
from kernel.machines import MACHINES
from kernel.record import Record
from kernel.store.plan import Call
from tests.end_to_end.house import House
from workers.client import Client
from workers.graphs import Graphs

HANGS = "sleep 600"
# What brings a job to stand in a state, and there it stays; `brought` does the rest.
RECIPES: dict[str, dict[str, Any]] = {
    "draft": {},
    "pending": {"depends_on": ["g/never"]},
    "suspended": {"depends_on": ["g/never"]},
    "running": {"command": HANGS},
    "paused": {"command": HANGS},
    "review_required": {"manual": True},
    "reviewing": {"review": {"command": HANGS}},
    "intervention_required": {"command": "exit 3"},
    "approval_required": {"auto_approve": False},
}


def job(folder: Path, command: str = "true", **more: Any) -> dict[str, Any]:
    """Return what a job of one command is born from; nobody needs to sign it off."""
    doer = {"command": command, **more.pop("worker", {})}
    found = {"phases": [{"worker": doer}], "folder": str(folder), "auto_approve": True}
    return {**found, **more}


def answers(**reply: Any) -> str:
    """Return a command that answers this."""
    return f'echo {shlex.quote(json.dumps(reply))} > "$INTERLOCK_JOB_REPLY"'


def first_run(command: str, otherwise: str = "true") -> str:
    """Return a command for the first run of a job, and another for those that follow."""
    return f"if [ $INTERLOCK_JOB_RUN = 1 ]; then {command}; else {otherwise}; fi"


class Scenes:
    """Jobs of one house, by name; a person and a producer who may tell them something."""

    def __init__(self, house: House, folder: Path) -> None:
        self.house, self.folder = house, folder
        self.client = house.client
        self.graphs = Graphs(self.client)
        self.count = 0

    @cached_property
    def producer(self) -> Graphs:
        """The same, as a producer."""
        return Graphs(Client(self.client.settings, actor="producer"))

    def new(self, graph: str = "g", *, held: bool = False, **more: Any) -> str:
        """Create a job under a new name; it is activated at once, but for a held one."""
        self.count += 1
        of = f"{graph}/j{self.count}"
        self.graphs.create(of, job(self.folder, **more), held=held)
        return of

    def at(self, state: str, **more: Any) -> str:
        """Create a job that comes to stand in a state; wait for it with `brought`."""
        return self.new(held=state == "draft", **{**RECIPES[state], **more})

    def brought(self, of: str, state: str) -> Record:
        """Bring a job of this state's recipe to where it is to stand."""
        if state == "review_required":
            self.reaches(of, "pending")
            self.house.sees(lambda: self.graphs.job(of).data["met"], what=f"{of} can be stepped")
            self.graphs.step(of)
        if state == "suspended":
            self.graphs.command(of, "suspend")
        if state == "paused":
            self.reaches(of, "running")
            self.graphs.command(of, "pause")
        return self.reaches(of, state)

    def stands(self, state: str, **more: Any) -> str:
        """Return a new job that stands in a state."""
        of = self.at(state, **more)
        self.brought(of, state)
        return of

    def reaches(self, of: str, *states: str, within_s: float = 60) -> Record:
        """Wait until a job stands in one of these states."""
        return self.house.reaches(of, *states, within_s=within_s)

    def fire(self, of: str, trigger: str, **payload: Any) -> None:
        """Fire a trigger as a person."""
        self.client.dispatch.fire(of, trigger, payload, Call(Cause("person"), uuid4().hex))

    def triggers(self, of: str) -> list[str]:
        """Return what happened to a job, in order."""
        return [event.trigger for event in self.house.events(of)]

    def fired(self, of: str, trigger: str) -> Event:
        """Return the last event of a kind."""
        return next(one for one in reversed(self.house.events(of)) if one.trigger == trigger)

    def records(self, *machines: str) -> Iterator[Record]:
        """Yield every record of these machines, each checked against its log."""
        views = self.client.dispatch.views
        for name in machines:
            for stage in MACHINES[name].stages:
                for one in views.standing(MACHINES[name], str(stage.state), 10_000):
                    yield self.house.checked(one.id)
