"""Subscriptions of records to the end of other records, in any partition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from interlock.kernel.record import Record, RecordId
from interlock.kernel.store.keys import Keys
from interlock.kernel.store.scripts import Client, call, read

PAGE = 500
AHEAD_MS = 86_400_000
MISSING, PRUNED = "missing", "pruned"
PLACEHOLDER = "*"  # the member of a countdown that keeps it open while others may join


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A record that waits for the end of another.

    It counts that in a countdown (<name>:<generation>), or waits for that end alone ('').
    """

    id: RecordId
    countdown: str
    machine: str
    priority: int

    @classmethod
    def of(cls, record: Record, countdown: str = "") -> Subscriber:
        """Return a record as a subscriber, which counts others in this countdown."""
        return cls(record.id, countdown, record.machine, record.priority)


class Subscriptions:
    """The scripts of subscriptions, over one client. Every call may be repeated."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self.client, self.keys = client, keys

    def subscribe(self, target: str, subscriber: Subscriber) -> str:
        """Subscribe to the end of a record. Returns its state where it has ended already, else ''.

        Returns MISSING where the record does not exist.
        """
        status, state = self._subscribed(target, subscriber, 0)
        return MISSING if status in (MISSING, PRUNED) else state

    def subscribe_ahead(self, target: str, subscriber: Subscriber) -> tuple[str, str]:
        """Subscribe to the end of a record, also where the record does not exist yet.

        Returns whether it exists, and the state in which it has ended already: ("", "done"). The
        first is MISSING where it does not exist, and PRUNED where it was deleted after its end.
        For a record that does not exist, the subscription lasts for a day unless it is repeated.
        """
        return self._subscribed(target, subscriber, AHEAD_MS)

    def _subscribed(self, target: str, subscriber: Subscriber, ahead_ms: int) -> tuple[str, str]:
        plan = {"subscriber": _line(subscriber), "ahead_ms": ahead_ms}
        reply = call(self.client, "subscribe", self.keys.of(target), plan)
        status, state = (part.decode() for part in reply)
        return (status if status in (MISSING, PRUNED) else ""), state if status == "ended" else ""

    def join(self, subscriber: Subscriber, members: Sequence[str]) -> bool:
        """Count records in the subscriber's countdown. Returns False where that is closed."""
        joined = self.keys.members(subscriber.id, subscriber.countdown)
        named = self.keys.of(subscriber.id, members=joined)
        pages = [members[at : at + PAGE] for at in range(0, len(members), PAGE)]
        return all(
            call(self.client, "join_countdown", named, {"joining": page})[0] == b"joined"
            for page in pages
        )

    def subscribers(self, record_id: str) -> Iterator[Subscriber]:
        """Yield the subscribers of a record. Once it has ended, no more are added."""
        cursor = b"0"
        while True:
            key = self.keys.subscribers(record_id)
            cursor, page = read(self.client, "SSCAN", key, cursor, "COUNT", PAGE)
            yield from map(_subscriber, page)
            if int(cursor) == 0:
                return


def _line(subscriber: Subscriber) -> str:
    return f"{subscriber.id} {subscriber.countdown} {subscriber.machine} {subscriber.priority}"


def _subscriber(line: bytes) -> Subscriber:
    record_id, countdown, machine, priority = line.decode().split(" ")
    return Subscriber(RecordId(record_id), countdown, machine, int(priority))
