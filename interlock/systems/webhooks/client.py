"""Lists the deliveries that have failed for good, and sends them again, for programs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from interlock import CallError, Client, KernelError
from interlock.systems.webhooks.endpoints import open_endpoints
from interlock.systems.webhooks.machines.delivery.names import State, Trigger
from interlock.systems.webhooks.machines.delivery.payloads import Delivery

LISTED_MAX = 1_000


@dataclass(frozen=True, slots=True)
class SentAgain:
    """Whether a delivery is sent again; if not, why."""

    id: str
    replayed: bool
    reason: str


class Webhooks:
    """The deliveries of a store, over a client. The log keeps its actor as who replays."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def dead(self, endpoint: str = "") -> list[dict[str, Any]]:
        """Return the deliveries that failed for good, the newest first: all, or of one endpoint.

        It lists at most LISTED_MAX. Raises CallError if there is no such endpoint.
        """
        return [_row(record) for record in self._dead(endpoint)]

    def replay(self, deliveries: Iterable[str], *, reason: str = "") -> list[SentAgain]:
        """Send deliveries again, each under its old id."""
        return [self._replay(each, reason) for each in deliveries]

    def replay_all(self, endpoint: str, *, reason: str = "") -> list[SentAgain]:
        """Send the deliveries of an endpoint again that failed for good, the oldest first."""
        return self.replay([record.id for record in reversed(self._dead(endpoint))], reason=reason)

    def _dead(self, endpoint: str) -> list[Delivery]:
        """Return those of an endpoint. Where no file of endpoints is set, any may be meant."""
        records = self.client.records
        ids = records.views.ids(records.machine("delivery"), states=[State.DEAD], newest=True)
        found: list[Delivery] = []
        record: Delivery
        for record in records.views.each_record(ids):
            if len(found) == LISTED_MAX:
                break
            if endpoint in ("", record.data["endpoint"]):
                found.append(record)
        known = [each.name for each in open_endpoints(self.client.settings)]
        if endpoint and not found and known and endpoint not in known:
            raise CallError(f"there is no endpoint {endpoint!r}; there are: {', '.join(known)}")
        return sorted(found, key=lambda record: record.since_ms, reverse=True)

    def _replay(self, delivery: str, reason: str) -> SentAgain:
        try:
            self.client.show(delivery, machine="delivery")
            self.client.fire(delivery, Trigger.REPLAY, {"reason": reason})
        except KernelError as refusal:
            return SentAgain(delivery, replayed=False, reason=str(refusal))
        return SentAgain(delivery, replayed=True, reason="")


def _row(record: Delivery) -> dict[str, Any]:
    data = record.data
    return {
        "id": record.id,
        "endpoint": data["endpoint"],
        "kind": data["kind"],
        "record": data["record"],
        "machine": data["machine"],
        "at_ms": data["at_ms"],
        "failures": data["failures"],
        "why": data["failure"]["detail"],
    }
