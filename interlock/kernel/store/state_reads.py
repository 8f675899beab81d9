"""Reads which records are in which states, from the indexes of the store."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import ceil, inf
from typing import Any

from interlock.kernel.machine import Machine
from interlock.kernel.record import PARTITIONS, RecordId, partition_of, record_id, root_of
from interlock.kernel.store.keys import Keys
from interlock.kernel.store.scripts import Client, call_all, read, read_all

PAGE = 500
SHARED_MAX = 2_000  # records of one state that are read to find those of one family


@dataclass(frozen=True, slots=True)
class StateKey:
    """The records of one machine and one partition that are in one state."""

    machine: str
    state: str
    partition: int


@dataclass(frozen=True, slots=True)
class RecordInState:
    """A record, its state, and since when it is in it (ms, by the store)."""

    id: RecordId
    machine: str
    state: str
    since_ms: int


@dataclass(frozen=True, slots=True)
class StateRows:
    """How many records are in a state, and some of them, the longest there first.

    `is_minimum`: not all records were looked at, so that there may be more.
    """

    number: int = 0
    rows: tuple[RecordInState, ...] = ()
    is_minimum: bool = False


class StateReads:
    """The part of `Views` that reads by state."""

    client: Client
    keys: Keys

    def partitions(self, machine: str, states: Collection[str]) -> list[int]:
        """Return the partitions, of 64, that have a machine's records in any of these states."""
        keys = [StateKey(machine, state, at) for state in states for at in range(PARTITIONS)]
        return sorted({key.partition for key in self.count_in_states(keys)})

    def in_states(
        self,
        limits: Mapping[tuple[str, str], int],
        *,
        root: str = "",
        newest: Collection[tuple[str, str]] = (),
    ) -> dict[tuple[str, str], StateRows]:
        """Count the records in states, each a machine and a state, and read some of each.

        `limits` is how many records of each state are returned, the longest in it first: the
        partitions share that number, so where there are more, a few may be missing among these. Of
        a state in `newest` they are those that came last, the last first. With `root` only the
        records of that family count. Takes at most three round trips.
        """
        partitions = [partition_of(root)] if root else range(PARTITIONS)
        keys = [StateKey(*state, at) for state in limits for at in partitions]
        counts = self.count_in_states(keys)
        wanted: dict[StateKey, int] = {}
        for state, limit in limits.items():
            filled = {key: n for key, n in counts.items() if (key.machine, key.state) == state}
            if root:
                # Other families may share the partition of one, so more of it is read.
                wanted |= dict.fromkeys(filled, SHARED_MAX)
            elif state in newest:
                wanted |= {key: min(number, limit) for key, number in filled.items()}
            else:
                wanted |= _shared(filled, 2 * limit)
        pages: dict[tuple[str, str], list[RecordInState]] = {state: [] for state in limits}
        for is_newest in (False, True):
            chosen = {
                key: limit
                for key, limit in wanted.items()
                if limit and ((key.machine, key.state) in newest) is is_newest
            }
            for key, rows in self.list_in_states(chosen, newest=is_newest).items():
                pages[key.machine, key.state] += rows
        found = {}
        for state, limit in limits.items():
            in_state = sum(counts.get(StateKey(*state, at), 0) for at in partitions)
            rows = [row for row in pages[state] if not root or root_of(row.id) == root]
            rows.sort(key=lambda row: row.since_ms, reverse=state in newest)
            number = len(rows) if root else in_state
            is_minimum = bool(root) and in_state > SHARED_MAX
            found[state] = StateRows(number, tuple(rows[:limit]), is_minimum)
        return found

    def ids(
        self,
        machine: Machine,
        *,
        root: str | None = None,
        partition: int | None = None,
        states: Iterable[str] = (),
        newest: bool = False,
    ) -> Iterator[RecordId]:
        """Yield the ids of a machine's records, each once.

        With `root`, only those of that family; with `partition`, only those of that one of the 64,
        as a sweep has it; with `states`, only those in these states. In each state the longest
        there comes first, or last with `newest`. Raises InvalidIdError.
        """
        names = [*states] or [stage.state for stage in machine.stages]
        of_root = None if root is None else partition_of(record_id(root))
        chosen = partition if of_root is None else of_root
        partitions = range(PARTITIONS) if chosen is None else (chosen,)
        keys = [StateKey(machine.name, str(name), at) for name in names for at in partitions]
        seen = set[RecordId]()
        # Twice: one round can miss a record that moves from a state that is still to be read to a
        # state that was read already.
        for _ in range(1 if len(names) == 1 else 2):
            # In one partition, to count what is in the states takes as long as to read it.
            counts = self.count_in_states(keys) if chosen is None else dict.fromkeys(keys, 0)
            for row in self._list_all(counts, newest=newest):
                if row.id not in seen and root in (None, root_of(row.id)):
                    seen.add(row.id)
                    yield row.id

    def count_in_states(self, state_keys: Collection[StateKey]) -> dict[StateKey, int]:
        """Return how many records are in each state that has any, in one round trip."""
        by_partition: dict[int, list[StateKey]] = defaultdict(list)
        for key in state_keys:
            by_partition[key.partition].append(key)
        # One script a partition: most states are empty, and as many replies take far longer.
        groups = list(by_partition.values())
        calls = [
            ({"indexes": [*map(self._state_index, group)]}, dict[str, Any]()) for group in groups
        ]
        found: dict[StateKey, int] = {}
        for group, reply in zip(groups, call_all(self.client, "count", calls), strict=True):
            found.update((group[at - 1], n) for at, n in zip(reply[::2], reply[1::2], strict=True))
        return {key: found[key] for key in state_keys if key in found}

    def list_in_states(
        self, limits: Mapping[StateKey, int], *, newest: bool = False
    ) -> dict[StateKey, list[RecordInState]]:
        """Return records of each state up to its limit, the longest there first."""
        name = "ZREVRANGE" if newest else "ZRANGE"
        found = read_all(
            self.client,
            [
                (name, self._state_index(key), 0, limit - 1, "WITHSCORES")
                for key, limit in limits.items()
            ],
        )
        return {
            key: [RecordInState(RecordId(i), key.machine, key.state, at) for i, at in _pairs(rows)]
            for key, rows in zip(limits, found, strict=True)
        }

    def states_in_use(self, since: Mapping[StateKey, int]) -> list[StateKey]:
        """Return the states that a record has entered since the ms of each, in one round trip."""
        commands = [("ZCOUNT", self._state_index(key), at, "+inf") for key, at in since.items()]
        found = read_all(self.client, commands)
        return [key for key, n in zip(since, found, strict=True) if n]

    def list_in_state_since(
        self, state_key: StateKey, since_ms: int = 0, *, newest: bool = False
    ) -> Iterator[RecordInState]:
        """Yield the records that have entered a state since a time, the oldest first.

        With `newest`, the newest first. Only a record that leaves the state meanwhile may be left
        out.
        """
        key, limit = self._state_index(state_key), PAGE
        last: tuple[float, str] = (inf, "") if newest else (since_ms, "")
        end, order = (since_ms, ("REV",)) if newest else ("+inf", ())
        while True:
            words = ("BYSCORE", *order, "LIMIT", 0, limit, "WITHSCORES")
            found = _pairs(read(self.client, "ZRANGE", key, last[0], end, *words))
            rows = [(at, one) for one, at in found]
            fresh = [row for row in rows if (row < last if newest else row > last)]
            for at, one in fresh:
                yield RecordInState(RecordId(one), state_key.machine, state_key.state, at)
            if len(rows) < limit:
                return
            # More records came in one millisecond than a page holds: read a longer page.
            last, limit = (fresh[-1], PAGE) if fresh else (last, 2 * limit)

    def _list_all(self, counts: Mapping[StateKey, int], *, newest: bool) -> Iterator[RecordInState]:
        """Yield the records of states; what is in many states is read in few round trips."""
        for keys in _divided(counts):
            pages = self.list_in_states(dict.fromkeys(keys, PAGE), newest=newest)
            for key, rows in pages.items():
                # The rows of a full page come again, for who asks for ids has each only once.
                is_full = len(rows) == PAGE
                yield from self.list_in_state_since(key, newest=newest) if is_full else rows

    def _state_index(self, state_key: StateKey) -> str:
        return self.keys.state_index_of(state_key.partition, state_key.machine, state_key.state)


def _shared(counts: Mapping[StateKey, int], limit: int) -> dict[StateKey, int]:
    """Share a limit among states: what one does not need goes to the others. Each gets a record."""
    shares, left = dict[StateKey, int](), limit
    for at, (key, number) in enumerate(sorted(counts.items(), key=lambda pair: pair[1])):
        shares[key] = min(number, max(ceil(left / (len(counts) - at)), 1 if limit else 0))
        left = max(left - shares[key], 0)
    return shares


def _divided(counts: Mapping[StateKey, int]) -> Iterator[list[StateKey]]:
    """Divide states so that each part has little more than a page of records."""
    part, size = list[StateKey](), 0
    for key, number in counts.items():
        part.append(key)
        size += number
        if size >= PAGE:
            yield part
            part, size = [], 0
    if part:
        yield part


def _pairs(rows: Any) -> Iterator[tuple[str, int]]:
    for member, score in rows:
        yield member.decode(), int(score)
