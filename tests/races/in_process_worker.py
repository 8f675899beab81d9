"""A worker in the test's own process. Of the store it is lost at whatever call a test names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import get_ident
from typing import Any

import pytest

from interlock.kernel.event import Event
from interlock.kernel.machines import MACHINES
from interlock.kernel.machines.jobs.job.table import DEPENDENCIES
from interlock.kernel.record import PARTITIONS, Entry, Record
from interlock.kernel.store import leases, redis, scripts, slots
from interlock.kernel.store import subscriptions as tells
from interlock.workers.client import Client
from interlock.workers.engine.resources import Resources
from interlock.workers.engine.runner import Runner
from interlock.workers.engine.work import Outcome, Run, Work
from interlock.workers.jobs.graphs import Graphs
from interlock.workers.ops.inspection import verify_all
from interlock.workers.systems import handlers
from tests.kernel.store.kernel_at_a_fixed_time import START_US, Text
from tests.workers.engine.running import settings_for

LEASE_S = 5
# A lost holder's lease, the grace after it, and some more.
RECOVERED_MS = 20_000
ROUNDS_MAX = 50


class LostError(BaseException):
    """What a SIGKILL is to the store: the calls before it were made, the others never are."""


class Calls:
    """Counts the scripts that are run; after so many of them the worker is gone."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made, self.last, self.thread = 0, -1, 0
        for module in (leases, redis, slots, tells):
            monkeypatch.setattr(module, "call", self._call)

    @contextmanager
    def lost_after(self, last: int) -> Iterator[None]:
        """Lose who calls, in this thread, after its n-th call; 0 is before its first."""
        self.made, self.last, self.thread = 0, last, get_ident()
        try:
            yield
        finally:
            self.last = -1

    def _call(self, client: Any, name: str, keys: list[str], args: list[Any]) -> Any:
        if self.last < 0 or get_ident() != self.thread:
            return scripts.call(client, name, keys, args)
        if self.last <= self.made:
            raise LostError
        answer = scripts.call(client, name, keys, args)
        self.made += 1
        if self.made == self.last:
            raise LostError
        return answer


class Hands:
    """A client, and a runner as a worker has it, over jobs without commands."""

    def __init__(
        self, url: str, prefix: str, home: Path, *, text: Text | None = None, **more: str
    ) -> None:
        given = {"INTERLOCK_LEASE_S": str(LEASE_S), "INTERLOCK_HOME": str(home), **more}
        self.client = Client(settings_for(url, prefix, **given), actor="person")
        self.dispatch, self.graphs = self.client.dispatch, Graphs(self.client)
        self.runner = Runner(self.dispatch, Resources(self.client.settings))
        self.text = text

    def job(self, of: str, *, activate: bool = True, priority: int = 5, **more: Any) -> str:
        """Create a job; by hand it waits for a word as soon as its dependencies are met."""
        payload = {"phases": [{"worker": {"command": "true"}}], "manual": True, **more}
        self.graphs.create(of, payload, priority=priority)
        if activate:
            self.graphs.command(of, "activate")
        return of

    def over(self, of: str, verb: str = "force-success") -> str:
        """End a job by a person's word; that it has ended is still to be told."""
        return self.graphs.command(of, verb, {"reason": "as the test has it"}).state

    def record(self, of: str) -> Record:
        return self.client.show(of)

    def owed(self, of: str, name: str = "") -> list[Entry]:
        found = self.record(of).entries
        return [one for one in found if name in ("", one.name)]

    def do(self, of: str, name: str, run: Run | None = None) -> list[str]:
        """Do all that a record owes by this name, once each."""
        machine = MACHINES[self.record(of).machine]
        handler = run or handlers()[name]
        keys = [entry.key(of) for entry in self.owed(of, name)]
        return [self.runner.perform(machine, name, handler, key) for key in keys]

    def settle(self, *ids: str, **instead: Run) -> None:
        """Do all that is owed, in some order, until nothing is; no timer is looked at."""
        for _ in range(ROUNDS_MAX):
            owed = [(of, entry.name) for of in ids for entry in self.owed(of)]
            if not owed:
                return
            for of, name in dict.fromkeys(owed):
                self.do(of, name, instead.get(name))
        raise AssertionError(f"still owed: {owed}")

    def lapse(self) -> None:
        """Let the leases of who was lost run out, and sweeps find that."""
        assert self.text is not None, "this world's clock runs by itself"
        self.text.now_us = (self.text.now_us or START_US) + RECOVERED_MS * 1_000
        for partition in range(PARTITIONS):
            if members := self.dispatch.indexes.due_effects(partition, 1_000):
                self.dispatch.indexes.take(partition, members, gate_open=True)

    def count(self, of: str, trigger: str) -> int:
        lines = self.client.history(of)
        return sum(isinstance(one, Event) and one.trigger == trigger for one in lines)

    def countdowns(self, of: str) -> set[str]:
        """Return who is still counted in any countdown of a record."""
        events = [line for line in self.client.history(of) if isinstance(line, Event)]
        begun = [e.version for e in events if e.trigger in ("activate", "resume")]
        views = self.dispatch.views
        return {one for at in begun for one in views.counted(of, f"{DEPENDENCIES}:{at}")}

    def sound(self) -> None:
        """See that every record equals its log, and is where sweeps and people look for it."""
        assert verify_all(self.dispatch, None)["faults"] == []


def done(work: Work) -> Outcome:
    """Complete a job's work without doing any."""
    del work
    return Outcome("agent_completed", {"summary": "done"})
