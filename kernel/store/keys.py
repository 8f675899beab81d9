"""Every key of the store, built in one place and tagged by partition; it never reads one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from interlock.kernel.record import ancestors, partition_of, root_of


@cache
def _tag(prefix: str, partition: int) -> str:
    return f"{prefix}:{{p{partition:02d}}}:"


@dataclass(frozen=True, slots=True)
class Keys:
    """Names below one prefix. All keys of a family carry its partition's tag: one cluster slot."""

    prefix: str = "il"

    def tag(self, partition: int) -> str:
        """Return what every key of a partition begins with."""
        return _tag(self.prefix, partition)

    def _of(self, record_id: str) -> str:
        return self.tag(partition_of(record_id))

    def record(self, record_id: str) -> str:
        """Hash: where a record stands, its live effects, its timers, its data."""
        return f"{self._of(record_id)}r:{record_id}"

    def counters(self, record_id: str) -> str:
        """Hash: integers kept outside the data, so that a cost makes no decision stale."""
        return f"{self._of(record_id)}n:{record_id}"

    def chain(self, record_id: str) -> list[str]:
        """Return the counters of a record and of its ancestors, itself first."""
        return [self.counters(record_id), *map(self.counters, reversed(ancestors(record_id)))]

    def log(self, record_id: str) -> str:
        """Stream: events and notes."""
        return f"{self._of(record_id)}log:{record_id}"

    def ops(self, record_id: str) -> str:
        """Hash: op-id to outcome."""
        return f"{self._of(record_id)}ops:{record_id}"

    def op_times(self, record_id: str) -> str:
        """Sorted set: op-ids by ms, to trim them."""
        return f"{self._of(record_id)}op-times:{record_id}"

    def tombstone(self, record_id: str) -> str:
        """String: what remains of a pruned record, so that its id stays taken."""
        return f"{self._of(record_id)}x:{record_id}"

    def children(self, record_id: str) -> str:
        """Set: every child ever born."""
        return f"{self._of(record_id)}children:{record_id}"

    def members(self, record_id: str, countdown: str) -> str:
        """Set: who is still counted; `countdown` is <name>:<generation>."""
        return f"{self._of(record_id)}count:{record_id}:{countdown}"

    def tally(self, record_id: str, countdown: str) -> str:
        """Hash: how many left a countdown, by outcome."""
        return f"{self._of(record_id)}tally:{record_id}:{countdown}"

    def subscribers(self, record_id: str) -> str:
        """Set: who is to be told of a record's end."""
        return f"{self._of(record_id)}subscribers:{record_id}"

    def inbox(self, record_id: str) -> str:
        """Stream: mail to the records of this one's family."""
        return f"{self._of(record_id)}inbox:{root_of(record_id)}"

    def posts(self, record_id: str) -> str:
        """Hash: op-id of a message to this one's family to the message's id."""
        return f"{self._of(record_id)}posts:{root_of(record_id)}"

    def post_times(self, record_id: str) -> str:
        """Sorted set: these op-ids by ms, to trim them."""
        return f"{self._of(record_id)}post-times:{root_of(record_id)}"

    def family_log(self, record_id: str) -> str:
        """Stream: which record of this one's family came to which version, in order."""
        return f"{self._of(record_id)}family-log:{root_of(record_id)}"

    def slots(self, name: str) -> str:
        """Sorted set: who has a slot of this name, by since when."""
        return f"{self._of(name)}slots:{name}"

    def slots_queue(self, name: str) -> str:
        """Sorted set: who waits for a slot of this name, first come first."""
        return f"{self._of(name)}slots-queue:{name}"

    def holds(self, record_id: str) -> str:
        """Hash: names that a record of this one's family holds, and which."""
        return f"{self._of(record_id)}holds:{root_of(record_id)}"

    def queue(self, record_id: str, name: str) -> str:
        """Sorted set: records of this one's family that wait to be taken, first come first."""
        return f"{self._of(record_id)}queue:{root_of(record_id)}:{name}"

    def queues(self, record_id: str) -> str:
        """Set: the lines of this one's family in which somebody stands."""
        return f"{self._of(record_id)}queues:{root_of(record_id)}"

    def state_index(self, record_id: str, machine: str, state: str) -> str:
        """Sorted set: records in a state by since when, in the partition of this one."""
        return f"{self._of(record_id)}in:{machine}:{state}"

    def state_index_of(self, partition: int, machine: str, state: str) -> str:
        """Sorted set: records in a state by since when."""
        return f"{self.tag(partition)}in:{machine}:{state}"

    def effects(self, partition: int) -> str:
        """Sorted set: effects by when to look at them again."""
        return f"{self.tag(partition)}effects"

    def timers(self, partition: int) -> str:
        """Sorted set: timers by when to look at them again."""
        return f"{self.tag(partition)}timers"

    def waits(self, partition: int) -> str:
        """Sorted set: records that wait for a person, by since when."""
        return f"{self.tag(partition)}waits"

    def ended(self, partition: int) -> str:
        """Sorted set: roots that ended, by when."""
        return f"{self.tag(partition)}ended"

    def meta(self, partition: int) -> str:
        """Hash: the partition's own record."""
        return f"{self.tag(partition)}meta"

    def rejected(self) -> str:
        """List: messages that nobody can act on."""
        return f"{self.prefix}:{{rejected}}:messages"

    def rejected_counts(self) -> str:
        """Hash: how many of them, by kind."""
        return f"{self.prefix}:{{rejected}}:counts"
