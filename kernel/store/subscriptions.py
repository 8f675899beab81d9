"""Who is told of a record's end, in whatever partition; it tells nobody itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from interlock.kernel.record import Record, RecordId
from interlock.kernel.store.keys import Keys
from interlock.kernel.store.scripts import Client, call, read

PAGE = 500
MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A record that counts another in one of its countdowns (<name>:<generation>)."""

    id: RecordId
    countdown: str
    machine: str
    priority: int

    @classmethod
    def of(cls, record: Record, countdown: str) -> Subscriber:
        """Return a record as one that waits for others."""
        return cls(record.id, countdown, record.machine, record.priority)


class Subscriptions:
    """The scripts of those who wait for ends, over one client. Every call may be repeated."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self.client, self.keys = client, keys

    def register(self, target: str, dependent: Subscriber) -> str:
        """Ask to be told of a target's end; return '' or, where it has ended, its state.

        MISSING where there is no such record.
        """
        names = [self.keys.record(target), self.keys.subscribers(target)]
        word, state = call(self.client, "subscribe", names, [_line(dependent)])
        if word == b"missing":
            return MISSING
        return str(state.decode()) if word == b"ended" else ""

    def join(self, dependent: Subscriber, members: Sequence[str]) -> bool:
        """Count records in a countdown whose sentinel is in; False where it is not."""
        names = [
            self.keys.record(dependent.id),
            self.keys.members(dependent.id, dependent.countdown),
        ]
        pages = [members[at : at + PAGE] for at in range(0, len(members), PAGE)]
        return all(
            call(self.client, "join_countdown", names, list(page))[0] == b"joined" for page in pages
        )

    def dependents(self, record_id: str) -> Iterator[Subscriber]:
        """Yield who is to be told of a record's end; nobody is added once it has ended."""
        cursor = b"0"
        while True:
            key = self.keys.subscribers(record_id)
            cursor, page = read(self.client, "SSCAN", key, cursor, "COUNT", PAGE)
            yield from map(_dependent, page)
            if int(cursor) == 0:
                return


def _line(one: Subscriber) -> str:
    return f"{one.id} {one.countdown} {one.machine} {one.priority}"


def _dependent(line: bytes) -> Subscriber:
    record_id, countdown, machine, priority = line.decode().split(" ")
    return Subscriber(RecordId(record_id), countdown, machine, int(priority))
