"""A limited number of slots by name, and the line for each; who gets one is told, never decided."""

from __future__ import annotations

from dataclasses import dataclass

from interlock.kernel.record import Record, RecordId
from interlock.kernel.store.keys import Keys
from interlock.kernel.store.scripts import Client, call

# By priority, then age, as lines of a family are; both fit into a double.
PRIORITY_SCALE = 10**13


@dataclass(frozen=True, slots=True)
class Occupied:
    """Whether a record has its slot, and who else was given one and should be rung."""

    held: bool
    rings: tuple[RecordId, ...]


class Slots:
    """The scripts of slots, over one client. Every call may be repeated."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self.client, self.keys = client, keys

    def acquire(self, name: str, record: Record, limit: int) -> Occupied:
        """Take a slot, or stand in the line for one. `limit` 0 sets none."""
        score = record.priority * PRIORITY_SCALE + record.created_ms
        names = [self.keys.slots(name), self.keys.slots_queue(name)]
        word, *given = call(self.client, "acquire_slot", names, [record.id, limit, score])
        return Occupied(word == b"held", tuple(RecordId(one.decode()) for one in given))

    def release(self, name: str, record_id: str, limit: int) -> tuple[RecordId, ...]:
        """Give a slot back, with '' only hand out what is free; return whom to ring."""
        names = [self.keys.slots(name), self.keys.slots_queue(name)]
        _, *given = call(self.client, "release_slot", names, [record_id, limit])
        return tuple(RecordId(one.decode()) for one in given)
