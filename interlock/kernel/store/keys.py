"""The names of all keys of the store, tagged by partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from interlock.kernel.record import ancestors, partition_of, root_of


@cache
def _tag(prefix: str, partition: int) -> str:
    return f"{prefix}:{{p{partition:02d}}}:"


# The keys that scripts have by these names: each is a method of Keys.
_OF_RECORD = frozenset(
    {"record", "counters", "log", "ops", "op_times", "saved", "tombstone", "children"}
    | {"subscribers", "inbox", "posts", "post_times", "family_log", "holds", "hold_queue"}
)
_OF_PARTITION = frozenset(
    {"effects", "timers", "waits", "ended_index", "search_index", "metrics", "feed", "meta"}
)


@dataclass(frozen=True, slots=True)
class KeysOf:
    """The keys of a partition, and of a record of it, by the names that scripts have for them.

    `others` are keys that only some scripts take, and lists. Only their names are iterated over.
    """

    keys: Keys
    partition: int
    record_id: str
    others: Mapping[str, Any]

    def __iter__(self) -> Iterator[str]:
        return iter(self.others)

    def __getitem__(self, name: str) -> Any:
        if name in self.others:
            return self.others[name]
        if name in _OF_PARTITION:
            return getattr(self.keys, name)(self.partition)
        if name in _OF_RECORD and self.record_id:
            return getattr(self.keys, name)(self.record_id)
        raise KeyError(name)

    def get(self, name: str, default: Any) -> Any:
        """Return a list of keys; `default` where it is not given."""
        return self.others.get(name, default)


@dataclass(frozen=True, slots=True)
class Keys:
    """Names below one prefix. All keys of a family carry its partition's tag: one cluster slot."""

    prefix: str = "il"

    def tag(self, partition: int) -> str:
        """Return the text with which every key of a partition begins."""
        return _tag(self.prefix, partition)

    def _of(self, record_id: str) -> str:
        return self.tag(partition_of(record_id))

    def of(self, record_id: str, **others: Any) -> KeysOf:
        """Return the keys of a record and its partition, and others, by name."""
        return KeysOf(self, partition_of(record_id), record_id, others)

    def in_partition(self, partition: int, **others: Any) -> KeysOf:
        """Return the keys of a partition, and others, by name."""
        return KeysOf(self, partition, "", others)

    def record(self, record_id: str) -> str:
        """Hash: a record's state, its live effects, its timers, its data."""
        return f"{self._of(record_id)}r:{record_id}"

    def counters(self, record_id: str) -> str:
        """Hash: integers that are not in the data, so that a cost makes no decision stale."""
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

    def saved(self, record_id: str) -> str:
        """Hash: what attempts at a record's effects have saved, by effect and name."""
        return f"{self._of(record_id)}saved:{record_id}"

    def tombstone(self, record_id: str) -> str:
        """String: the creation digest of a pruned record, so that its id stays taken."""
        return f"{self._of(record_id)}x:{record_id}"

    def children(self, record_id: str) -> str:
        """Set: every child that was ever created."""
        return f"{self._of(record_id)}children:{record_id}"

    def members(self, record_id: str, countdown: str) -> str:
        """Set: the members of a countdown (<name>:<generation>) that have not ended."""
        return f"{self._of(record_id)}count:{record_id}:{countdown}"

    def tally(self, record_id: str, countdown: str) -> str:
        """Hash: how many members have left a countdown, by the state in which they ended."""
        return f"{self._of(record_id)}tally:{record_id}:{countdown}"

    def subscribers(self, record_id: str) -> str:
        """Set: the records that wait for a record's end."""
        return f"{self._of(record_id)}subscribers:{record_id}"

    def inbox(self, record_id: str) -> str:
        """Stream: the messages to the records of a family."""
        return f"{self._of(record_id)}inbox:{root_of(record_id)}"

    def posts(self, record_id: str) -> str:
        """Hash: the op-id of each message to a family, and the id of the message."""
        return f"{self._of(record_id)}posts:{root_of(record_id)}"

    def post_times(self, record_id: str) -> str:
        """Sorted set: the op-ids of these messages by ms, to trim them."""
        return f"{self._of(record_id)}post-times:{root_of(record_id)}"

    def family_log(self, record_id: str) -> str:
        """Stream: the commits of a family in order, each as a record and its new version."""
        return f"{self._of(record_id)}family-log:{root_of(record_id)}"

    def slots(self, name: str) -> str:
        """Sorted set: the records that have a slot of this name; part/slots.lua has the scores."""
        return f"{self._of(name)}slots:{name}"

    def slots_queue(self, name: str) -> str:
        """Sorted set: the records that wait for a slot of this name, by priority and age."""
        return f"{self._of(name)}slots-queue:{name}"

    def slots_reports(self, name: str) -> str:
        """Hash: the holders that were offered a slot, and the call that last said to wake each."""
        return f"{self._of(name)}slots-reports:{name}"

    def effect_slots(self, name: str) -> dict[str, str]:
        """The keys of slots of effects: holders, queue and reports, as those of records are."""
        slots = f"{self._of(name)}effect-slots"
        return {
            "holders": f"{slots}:{name}",
            "queue": f"{slots}-queue:{name}",
            "reports": f"{slots}-reports:{name}",
        }

    def checked_slots(self, partition: int) -> str:
        """Sorted set: the names of effects' slots that have holders, by ms of the next check."""
        return f"{self.tag(partition)}checked-slots"

    def holds(self, record_id: str) -> str:
        """Hash: the names that are held in a family, and the record that holds each."""
        return f"{self._of(record_id)}holds:{root_of(record_id)}"

    def hold_queue(self, record_id: str) -> str:
        """Hash: the effects of a family that wait for a held name; part/hold_queue.lua has more."""
        return f"{self._of(record_id)}hold-queue:{root_of(record_id)}"

    def queue(self, record_id: str, name: str) -> str:
        """Sorted set: the records of a family that wait to be claimed, by priority and age."""
        return f"{self._of(record_id)}queue:{root_of(record_id)}:{name}"

    def queues(self, record_id: str) -> str:
        """Set: the names of a family's queues that are not empty."""
        return f"{self._of(record_id)}queues:{root_of(record_id)}"

    def state_index(self, record_id: str, machine: str, state: str) -> str:
        """Sorted set: the records in a state by ms of entry, in the partition of a record."""
        return f"{self._of(record_id)}in:{machine}:{state}"

    def state_index_of(self, partition: int, machine: str, state: str) -> str:
        """Sorted set: the records in a state by ms of entry."""
        return f"{self.tag(partition)}in:{machine}:{state}"

    def state_indexes(self, partition: int, states: Iterable[tuple[str, str]]) -> list[str]:
        """Return the state indexes of a partition for machines with a state of each."""
        tag = self.tag(partition)
        return [f"{tag}in:{machine}:{state}" for machine, state in states]

    def creation_index(self, partition: int, machine: str) -> str:
        """Sorted set: the records of a machine by ms of creation."""
        return f"{self.tag(partition)}created:{machine}"

    def search_index(self, partition: int) -> str:
        """Sorted set in the order of its members: ids, and words of titles with the record's id."""
        return f"{self.tag(partition)}search"

    def list_indexes(self, partition: int, machine: str) -> tuple[str, str]:
        """Return the creation index of a machine and the search index, which lists read."""
        return self.creation_index(partition, machine), self.search_index(partition)

    def effects(self, partition: int) -> str:
        """Sorted set: effects by the ms of their next poll."""
        return f"{self.tag(partition)}effects"

    def timers(self, partition: int) -> str:
        """Sorted set: timers by the ms of their next poll."""
        return f"{self.tag(partition)}timers"

    def waits(self, partition: int) -> str:
        """Sorted set: the records that wait for a person, by ms of entry."""
        return f"{self.tag(partition)}waits"

    def reported_cards(self, partition: int) -> str:
        """Sorted set: the records that were reported as waiting for a person, by ms of entry."""
        return f"{self.tag(partition)}reported-cards"

    def reported_ends(self, partition: int) -> str:
        """String: the ms and the id of the last record that was reported as ended."""
        return f"{self.tag(partition)}reported-ends"

    def reported_waits(self, partition: int) -> str:
        """Hash: for each limit, the ms and the id of the last record that waited for too long."""
        return f"{self.tag(partition)}reported-waits"

    def ended_index(self, partition: int) -> str:
        """Sorted set: the roots that have ended, by ms."""
        return f"{self.tag(partition)}ended"

    def meta(self, partition: int) -> str:
        """Hash: the format of the partition, and the server that it is on."""
        return f"{self.tag(partition)}meta"

    def metrics(self, partition: int) -> str:
        """Hash: counts for metrics; part/metrics.lua and call_times.py say of what."""
        return f"{self.tag(partition)}metrics"

    def feed(self, partition: int) -> str:
        """Stream: the commits of a partition in order, each as a record and its new version."""
        return f"{self.tag(partition)}feed"

    def rejected(self) -> str:
        """Stream: messages that no worker can act on."""
        return f"{self.prefix}:{{rejected}}:log"

    def rejected_bytes(self) -> str:
        """String: how many bytes of them are kept."""
        return f"{self.prefix}:{{rejected}}:bytes"

    def rejected_counts(self) -> str:
        """Hash: how many messages were rejected, by kind."""
        return f"{self.prefix}:{{rejected}}:counts"

    def sweeps(self) -> str:
        """Hash: when each sweep began last, in ms."""
        return f"{self.prefix}:{{sweeps}}:begun"

    def ended_sweeps(self) -> str:
        """Hash: when a run of each sweep ended last, in ms."""
        return f"{self.prefix}:{{sweeps}}:ended"

    def sweep_results(self) -> str:
        """Hash: how many items had each status in all runs of each sweep."""
        return f"{self.prefix}:{{sweeps}}:results"

    def access_tokens(self) -> str:
        """Hash: what each access token allows and a digest of its secret, by its id."""
        return f"{self.prefix}:{{access-tokens}}"

    def access_tokens_revoked(self) -> str:
        """Hash: when an access token was revoked, in ms, and by whom, by its id."""
        return f"{self.prefix}:{{access-tokens}}:revoked"

    def access_tokens_used(self) -> str:
        """Hash: when an access token was last used, in ms, by its id."""
        return f"{self.prefix}:{{access-tokens}}:used"

    def sessions(self) -> str:
        """Hash: until when a browser's session lasts and the token it is of, by its digest."""
        return f"{self.prefix}:{{sessions}}"

    def sessions_ended(self) -> str:
        """Hash: in `count`, how many sessions were ended before their time."""
        return f"{self.prefix}:{{sessions}}:ended"

    def acts(self) -> str:
        """Stream: the acts of people over all records."""
        return f"{self.prefix}:{{acts}}"

    def saved_views(self) -> str:
        """Hash: the address of each saved view and who saved it, by its name."""
        return f"{self.prefix}:{{saved-views}}"

    def link_key(self) -> str:
        """String: the key that signs links for people."""
        return f"{self.prefix}:{{link-key}}"

    def hosts(self) -> str:
        """Hash: what each computer says of itself, by its host name."""
        return f"{self.prefix}:{{hosts}}"

    def hosts_announced(self) -> str:
        """Sorted set: the host names by the ms at which each computer announced its facts last."""
        return f"{self.prefix}:{{hosts}}:announced"

    def outlines(self) -> str:
        """Hash: the outline of each table that was ever applied, by machine and digest."""
        return f"{self.prefix}:{{tables}}:outlines"

    def table_states(self) -> str:
        """Set: each machine with each state that one of its outlines has."""
        return f"{self.prefix}:{{tables}}:states"

    def applied_tables(self) -> str:
        """Hash: the digest of the table by which workers work, when and by whom, by machine."""
        return f"{self.prefix}:{{tables}}:applied"

    def replaced_tables(self) -> str:
        """Hash: the digest of the table that was applied before the present one, by machine."""
        return f"{self.prefix}:{{tables}}:replaced"

    def moves_lock(self) -> str:
        """String: who moves the records of the deployment by `interlock apply`, while it runs."""
        return f"{self.prefix}:{{tables}}:moves"

    def processes(self) -> str:
        """Hash: what each process says of itself, by its name."""
        return f"{self.prefix}:{{tables}}:processes"

    def processes_announced(self) -> str:
        """Sorted set: the names of processes by the ms at which each announced itself last."""
        return f"{self.prefix}:{{tables}}:announced"

    def publications_asked(self) -> str:
        """Sorted set: the publications for which computers are asked, by ms of the last time."""
        return f"{self.prefix}:{{publications}}:asked"

    def publications_asked_since(self) -> str:
        """Sorted set: these publications by the ms since which each has been asked for."""
        return f"{self.prefix}:{{publications}}:asked-since"

    def publications_taken(self, host: str) -> str:
        """Sorted set: the publications that a worker makes, by the ms when it began; it expires."""
        return f"{self.prefix}:{{publications}}:taken:{host}"

    def publication(self, host: str, name: str) -> str:
        """Hash: what a computer has published, and when; it expires."""
        return f"{self.prefix}:{{publications}}:of:{host}:{name}"
