"""What happens to the due times of a partition when the clock of its server is set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from interlock.kernel.record import PARTITIONS, RecordId
from interlock.kernel.store.keys import Keys
from interlock.kernel.store.scripts import Client, call, read_all


@dataclass(frozen=True, slots=True)
class Pass:
    """What one pass of the orphan sweep reads of a partition. Times are ms, by the store.

    `moves`: how often due times were moved because the clock was set.
    """

    now_ms: int
    last_ms: int  # of the pass before, by any process
    moves: int


@dataclass(frozen=True, slots=True)
class Jump:
    """A clock that was set ahead by `ms`, or back where that is negative.

    `old_until` is the last ms of the clock as it was, and `moves` that of the pass that saw it.
    """

    ms: int
    old_until: int
    moves: int


@dataclass(frozen=True, slots=True)
class LeasedFor:
    """An effect of a record, and for how many ms a claim leases it."""

    record_id: RecordId
    suffix: str
    lease_ms: int


class Clocks:
    """The due times of all partitions, over one client."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self.client, self.keys = client, keys

    def timers(self, partition: int) -> list[str]:
        """Return every timer of a partition, as <record>:<name>."""
        return self._members(self.keys.timers(partition))

    def effects(self, partition: int) -> list[str]:
        """Return the key of every effect in the index of a partition."""
        return self._members(self.keys.effects(partition))

    def _members(self, index: str) -> list[str]:
        [found] = read_all(self.client, [("ZRANGE", index, 0, -1)])
        return [member.decode() for member in found]

    def move(
        self, partition: int, jump: Jump, timers: Sequence[str], effects: Sequence[LeasedFor]
    ) -> bool:
        """Move these due times of a partition; False if another process has done it."""
        keys = self.keys
        pairs = [timer.split(":", 1) for timer in timers]
        plan = {
            "moves": jump.moves,
            "jump_ms": jump.ms,
            "old_until": jump.old_until,
            "timers": [{"id": record_id, "name": name} for record_id, name in pairs],
            "effects": [
                {"id": one.record_id, "suffix": one.suffix, "lease_ms": one.lease_ms}
                for one in effects
            ],
        }
        named = keys.in_partition(
            partition,
            timer_records=[keys.record(record_id) for record_id, _ in pairs],
            effect_records=[keys.record(one.record_id) for one in effects],
        )
        status: bytes = call(self.client, "move_times", named, plan)[0]
        return status == b"moved"

    def last_jump(self) -> tuple[int, int] | None:
        """Return by how many ms a clock was set the last time, and when that was seen."""
        names = [self.keys.meta(partition) for partition in range(PARTITIONS)]
        found = read_all(self.client, [("HMGET", name, "jumped_at", "jump_ms") for name in names])
        seen = [(int(at), int(ms)) for at, ms in found if at is not None]
        return max(seen)[::-1] if seen else None
