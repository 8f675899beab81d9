"""Threads for producers and people: submit a request, split it, hand it over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from interlock.kernel.event import Cause
from interlock.kernel.machines.threads.thread.table import THREAD
from interlock.kernel.record import Record
from interlock.kernel.store.commands import Call, Warrant
from interlock.workers.client import Client, Submitted


class Threads:
    """What can be done with threads beside what a client does with every record."""

    def __init__(self, client: Client) -> None:
        self.client, self.dispatch = client, client.dispatch

    def submit(
        self,
        payload: Mapping[str, Any],
        *,
        id: str | None = None,  # noqa: A002 - the word that everybody uses
        priority: int = 5,
    ) -> Submitted:
        """Hand in a request. "Accepted" means that the thread exists; see `Client.submit`."""
        return self.client.submit(payload, id=id, machine=THREAD.name, priority=priority)

    def submit_many(self, payloads: Sequence[Mapping[str, Any]]) -> list[Submitted]:
        """Submit several requests; see `Client.submit_many`."""
        return self.client.submit_many(payloads, machine=THREAD.name)

    def decompose(
        self,
        thread: str,
        children: Sequence[Mapping[str, Any]],
        *,
        proposal: str,
        relationship: str = "decompose",
    ) -> Record:
        """Split a thread at its consent gate into parts that are resolved by themselves."""
        warrant = Warrant.person(self.client.proposal_version(self.client.show(thread), proposal))
        parts = {"children": [dict(child) for child in children], "relationship": relationship}
        call = Call(Cause(self.client.actor), warrant=warrant)
        fired = self.dispatch.fire(thread, "decomposed", parts, call)
        return fired.record or self.client.show(thread)

    def handoff(self, thread: str, *, to: str, kind: str, reference: str) -> Record:
        """Hand a thread to a person or system. Interlock runs nothing on it afterwards."""
        payload = {"to": to, "kind": kind, "reference": reference}
        return self.client.fire(thread, THREAD.hands_off, payload, reason=f"handed to {to}")
