"""A workflow at work in the test's own process, over a real store: its effects one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from interlock.kernel.machines import MACHINES
from interlock.kernel.record import Entry, Record, partition_of
from interlock.workers.client import Client
from interlock.workers.engine.builtin import BUILTIN
from interlock.workers.engine.resources import Resources
from interlock.workers.engine.runner import Runner
from interlock.workers.engine.sweeps import orphans, stalls
from interlock.workers.engine.system import Definition, load
from interlock.workers.engine.work import Handler
from tests.sweeping import sweeping
from tests.waiting import until
from tests.workers.engine.running import perform, settings_for


@contextmanager
def registered(*flows: Definition[Any]) -> Iterator[None]:
    """Let this process know workflows, until the end of the block."""
    for flow in flows:
        MACHINES.add(flow.name, cache(lambda flow=flow: flow.machine))
    try:
        yield
    finally:
        for flow in flows:
            del MACHINES.entries[flow.name]


class AtWork:
    """A client, and a worker that does the effects that are due."""

    def __init__(self, url: str, prefix: str, *flows: Definition[Any], **settings: str) -> None:
        self.flows = {flow.name: flow for flow in flows}
        self.client = Client(settings_for(url, prefix, **settings), actor="ann")
        self.runner = Runner(self.client.dispatch, Resources(self.client.settings))
        self.common: dict[str, Handler] = load(f"{BUILTIN.effects}:HANDLERS")
        self.lines: list[str] = []

    def entries(self, record_id: str) -> list[Entry]:
        """Return the effects that a record owes now, without cards, which nobody reads here."""
        return [one for one in self.client.show(record_id).entries if one.name != "resolution"]

    def perform(self, record_id: str, handler: Handler | None = None) -> str:
        """Perform the first effect that a record owes."""
        entry, record = self.entries(record_id)[0], self.client.show(record_id)
        machine = MACHINES[record.machine]
        own = self.flows[record.machine].handlers if record.machine in self.flows else {}
        chosen = handler or self.common.get(entry.name) or own[entry.name]
        line = perform(self.runner, machine, entry.name, chosen, entry.key(record_id))
        self.lines.append(line)
        return line

    def work(self, record_id: str, *, most: int = 20) -> Record:
        """Perform effects of a record until it owes none that is due."""
        for _ in range(most):
            if not self.entries(record_id):
                break
            line = self.perform(record_id)
            if line.startswith(("retry", "ignored", "revoked")):
                break
        return self.client.show(record_id)

    def sweep(self, record_id: str) -> None:
        """Let the sweeps look for lost effects and due timers."""
        orphans.run(sweeping(self.client.dispatch), partition_of(record_id))
        stalls.run(sweeping(self.client.dispatch), partition_of(record_id))

    def reach(self, record_id: str, state: str) -> Record:
        """Perform effects of a record and of its children, and sweep, until it is in a state."""

        def reached() -> bool:
            for one in (*self.client.dispatch.views.children(record_id), record_id):
                self.work(one)
                self.sweep(one)
            return self.client.show(record_id).state == state

        until(reached, what=f"{record_id} is {state}: {self.lines}")
        return self.client.show(record_id)

    def answer(self, record_id: str, choice: str, **fields: Any) -> Record:
        """Answer the card of a record."""
        card = self.client.card(record_id)
        assert card, f"{record_id} asks nobody"
        return self.client.decide(record_id, choice, fields, proposal=card.proposal)


Start = Callable[..., AtWork]
