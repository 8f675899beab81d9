"""Threads for producers and people: submit a request, split it, hand it over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from interlock import Client, Submitted
from interlock.system.tables import PRIORITY_DEFAULT, Record
from interlock.systems.threads.machines.thread.names import Trigger
from interlock.systems.threads.machines.thread.table import THREAD


class Threads:
    """The calls for threads, in addition to those that a client has for every record."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def submit(
        self,
        payload: Mapping[str, Any],
        *,
        id: str | None = None,  # noqa: A002 - a record's id is called id everywhere
        priority: int = PRIORITY_DEFAULT,
    ) -> Submitted:
        """Submit a request. When it returns, the thread exists; see `Client.submit`."""
        return self.client.submit(payload, id=id, machine=THREAD.name, priority=priority)

    def submit_many(self, payloads: Sequence[Mapping[str, Any]]) -> list[Submitted]:
        """Submit several requests; see `Client.submit_many`."""
        return self.client.submit_many(payloads, machine=THREAD.name)

    def decompose(
        self,
        record_id: str,
        children: Sequence[Mapping[str, Any]],
        *,
        proposal: str,
        relationship: str = "decompose",
    ) -> Record:
        """Split a thread that waits for consent into children, each a thread of its own."""
        version = self.client.answers(self.client.show(record_id)).version(proposal)
        plain = [dict(child) for child in children]
        payload = {"children": plain, "relationship": relationship}
        fired = self.client.records.fire(record_id, Trigger.DECOMPOSED, payload, version=version)
        return fired.record or self.client.show(record_id)

    def handoff(self, record_id: str, *, to: str, kind: str, reference: str) -> Record:
        """Hand a thread to a person or system. Interlock runs nothing on it afterwards."""
        self.client.show(record_id, machine=THREAD.name)
        payload = {"to": to, "kind": kind, "reference": reference}
        return self.client.fire(record_id, Trigger.HANDED_OFF, payload, reason=f"handed to {to}")
