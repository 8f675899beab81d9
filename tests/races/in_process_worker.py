"""A worker in the test's own process, which a test can end at any call to the store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import get_ident
from typing import Any

import pytest

from interlock.kernel.event import Event
from interlock.kernel.families import countdowns_begun
from interlock.kernel.machines import MACHINES
from interlock.kernel.record import PARTITIONS, Entry, Record
from interlock.kernel.store import leases, redis, saved_results, scripts, slots, subscriptions
from interlock.systems.jobs.client import Graphs
from interlock.workers.client import Client
from interlock.workers.engine.isolation import Isolation, Performed
from interlock.workers.engine.resources import Resources
from interlock.workers.engine.runner import Runner
from interlock.workers.engine.work import EffectWork, Handler, Outcome
from interlock.workers.ops.verify import verify_all
from interlock.workers.systems import handlers
from tests.kernel.store.kernel_at_a_fixed_time import START_US, Text
from tests.workers.engine.running import perform, settings_for

LEASE_S = 60
# Longer than a lost holder's lease and the grace period after it.
RECOVERED_MS = 100_000
ROUNDS_MAX = 50


class LostError(KeyboardInterrupt):
    """Raised instead of a SIGKILL: the calls before it were made, the later ones are not.

    The runner takes all but an interrupt for a failure of the handler.
    """


class Calls:
    """Counts the calls of scripts, and raises LostError after as many as a test asks for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made, self.maximum, self.thread = 0, -1, 0
        for module in (leases, redis, saved_results, slots, subscriptions):
            monkeypatch.setattr(module, "call", self._call)

    @contextmanager
    def lost_after(self, maximum: int) -> Iterator[None]:
        """Raise LostError in this thread once it has made this many calls; 0: before any."""
        self.made, self.maximum, self.thread = 0, maximum, get_ident()
        try:
            yield
        finally:
            self.maximum = -1

    def _call(self, client: Any, name: str, keys: Any, plan: Any) -> Any:
        if self.maximum < 0 or get_ident() != self.thread:
            return scripts.call(client, name, keys, plan)
        if self.maximum <= self.made:
            raise LostError
        answer = scripts.call(client, name, keys, plan)
        self.made += 1
        if self.made == self.maximum:
            raise LostError
        return answer


class InThisProcess(Isolation):
    """Performs an effect whose worker was lost as another process would, in this one."""

    def __init__(self, runner: Runner) -> None:
        super().__init__()
        self.runner = runner

    def perform(self, work: EffectWork) -> Performed:
        nonce = work.lease.token.partition("-")[2]
        handler = handlers()[f"{work.machine.name}.{work.lease.name}"]
        line = self.runner.perform(work.machine, work.lease.name, handler, work.key, nonce=nonce)
        return Performed(line)


class InProcessWorker:
    """A client and the runner of a worker in one process. Its jobs run no commands."""

    def __init__(
        self, url: str, prefix: str, home: Path, *, text: Text | None = None, **more: str
    ) -> None:
        variables = {"INTERLOCK_LEASE_S": str(LEASE_S), "INTERLOCK_HOME": str(home), **more}
        self.client = Client(settings_for(url, prefix, **variables), actor="person")
        self.dispatch, self.graphs = self.client.dispatch, Graphs(self.client)
        self.runner = Runner(self.dispatch, Resources(self.client.settings))
        # Another process would see neither the clock of the test nor its settings.
        self.runner.isolation = InThisProcess(self.runner)
        self.text = text

    def create_job(
        self, job_id: str, *, activate: bool = True, priority: int = 5, **more: Any
    ) -> str:
        """Create a manual job: once its dependencies are met it waits until a person runs it."""
        payload = {"phases": [{"worker": {"command": "true"}}], "manual": True, **more}
        self.graphs.create(job_id, payload, priority=priority)
        if activate:
            self.graphs.command(job_id, "activate")
        return job_id

    def end_job(self, job_id: str, verb: str = "force-success") -> str:
        """End a job by a person's command. The effect that announces its end is still due."""
        return self.graphs.command(job_id, verb, {"reason": "as the test has it"}).state

    def record(self, record_id: str) -> Record:
        return self.client.show(record_id)

    def due_effects(self, record_id: str, name: str = "") -> list[Entry]:
        entries = self.record(record_id).entries
        return [entry for entry in entries if name in ("", entry.name)]

    def perform(self, record_id: str, name: str, handler: Handler | None = None) -> list[str]:
        """Perform each effect of this name that a record has, once."""
        record = self.record(record_id)
        machine = MACHINES[record.machine]
        chosen = handler or handlers()[f"{machine.name}.{name}"]
        keys = [entry.key(record_id) for entry in record.entries if entry.name == name]
        return [perform(self.runner, machine, name, chosen, key) for key in keys]

    def run_until_idle(self, *record_ids: str, **instead: Handler) -> None:
        """Perform all effects of these records until none is left. Timers are ignored."""
        for _ in range(ROUNDS_MAX):
            due = [
                (record_id, entry.name)
                for record_id in record_ids
                for entry in self.due_effects(record_id)
            ]
            if not due:
                return
            for record_id, name in dict.fromkeys(due):
                self.perform(record_id, name, instead.get(name))
        raise AssertionError(f"these effects are still to be done: {due}")

    def expire_leases(self) -> None:
        """Let the leases of a lost worker run out, and run the sweeps that find its effects."""
        assert self.text is not None, "the clock of this kernel runs by itself"
        self.text.now_us = (self.text.now_us or START_US) + RECOVERED_MS * 1_000
        for partition in range(PARTITIONS):
            if members := self.dispatch.indexes.due_effects(partition, 1_000):
                self.dispatch.indexes.poll_effects(partition, members, gate_open=True)

    def count_events(self, record_id: str, trigger: str) -> int:
        lines = self.client.history(record_id)
        return sum(isinstance(line, Event) and line.trigger == trigger for line in lines)

    def countdowns(self, record_id: str) -> set[str]:
        """Return the ids of the records that any countdown of a record still waits for."""
        begun = countdowns_begun(MACHINES["job"], self.client.history(record_id))
        views = self.dispatch.views
        return {member for countdown in begun for member in views.counted(record_id, countdown)}

    def check_consistency(self) -> None:
        """Check that each record equals its log and is in the indexes where it is looked for."""
        assert verify_all(self.dispatch, None)["faults"] == []


def done(work: EffectWork) -> Outcome:
    """Complete a job's work without doing any."""
    del work
    return Outcome("agent_completed", {"summary": "done"})
