"""Slots: a name has a limited number of them, and a queue of the records that wait for one."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import uuid4

from interlock.kernel.record import Record, RecordId
from interlock.kernel.store.keys import Keys
from interlock.kernel.store.scripts import Client, call

# The queue is in order of priority, then age, as the queues of families are. Both fit a double.
PRIORITY_SCALE = 10**13


@dataclass(frozen=True, slots=True)
class Occupied:
    """Whether a record has its slot, and the other records that were given one: wake them."""

    held: bool
    to_wake: tuple[RecordId, ...]


class Slots:
    """The scripts of slots, over one client. Every call may be repeated.

    `call` sends a script again by itself if its reply is lost. Both times the script gets the same
    id of the call, and so names the same records to wake.
    """

    def __init__(self, client: Client, keys: Keys) -> None:
        self.client, self.keys = client, keys

    def acquire(self, name: str, record: Record, limit: int) -> Occupied:
        """Take a slot, or enter the queue for one. A `limit` of 0 is none."""
        score = record.priority * PRIORITY_SCALE + record.created_ms
        args = [record.id, limit, uuid4().hex, score]
        status, *given = call(self.client, "acquire_slot", self._names(name), args)
        return Occupied(status == b"held", tuple(RecordId(one.decode()) for one in given))

    def release(self, name: str, record_id: str, limit: int) -> tuple[RecordId, ...]:
        """Give back a record's slot, or its place in the queue, and give free slots to the next.

        With an empty id only the free slots are given. Returns the records to wake.
        """
        args = [record_id, limit, uuid4().hex]
        _, *given = call(self.client, "release_slot", self._names(name), args)
        return tuple(RecordId(one.decode()) for one in given)

    def _names(self, name: str) -> list[str]:
        keys = self.keys
        return [keys.slots(name), keys.slots_queue(name), keys.slots_reports(name)]
