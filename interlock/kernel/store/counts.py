"""Counts the records of a list by machine and state.

No count is a snapshot: a record that changes meanwhile may be missing, but none is counted twice.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from interlock.kernel.record import RecordId
from interlock.kernel.store.listings import READ_MAX, Filter, Listings, Position
from interlock.kernel.store.scripts import call_all, read_all

COUNT_MAX = 10_000  # records that are read for one count
StateNumbers = Counter[tuple[str, str]]  # by machine and state


@dataclass(frozen=True, slots=True)
class RecordCounts:
    """How many records of each machine are in each state that has any.

    With `more`, the count has ended at its maximum although there were more records to read.
    """

    machines: dict[str, dict[str, int]]
    more: bool = False


def count_records(listings: Listings, wanted: Filter) -> RecordCounts:
    """Count the records of a list.

    Indexes count those of given states, and by the time in them. With any other condition the
    records themselves are read, at most COUNT_MAX of them. Raises CallError.
    """
    if wanted.states and wanted.by_time and wanted.created_ms is None:
        numbers, more = _count_in_indexes(listings, wanted), False
    else:
        numbers, more = _count_rows(listings, wanted)
    machines: dict[str, dict[str, int]] = {name: {} for name in wanted.machines}
    for (machine, state), number in numbers.items():
        if number:
            now = listings.state_now(machine, state)
            machines[machine][now] = machines[machine].get(now, 0) + number
    return RecordCounts(machines, more)


def _count_in_indexes(listings: Listings, wanted: Filter) -> StateNumbers:
    """Count the records of states in one round trip; in two with times in the state."""
    client, states, indexes = listings.client, list(wanted.states), listings.state_indexes(wanted)
    replies = call_all(client, "count", [({"indexes": group}, {}) for group in indexes])
    found = [
        (group[at - 1], states[at - 1], number)
        for group, reply in zip(indexes, replies, strict=True)
        for at, number in zip(reply[::2], reply[1::2], strict=True)
    ]
    numbers = [number for *_, number in found]
    if within := wanted.since_ms:
        # Nearly every state of a partition is empty, so few indexes are left to be asked.
        numbers = read_all(client, [("ZCOUNT", index, *within) for index, *_ in found])
    counts = StateNumbers()
    for (_, state, _), number in zip(found, numbers, strict=True):
        counts[state] += number
    return counts


def _count_rows(listings: Listings, wanted: Filter) -> tuple[StateNumbers, bool]:
    """Count those that fit of the first COUNT_MAX records, and say whether there are more."""
    source = listings.source_of(wanted, newest=True)
    position: Position = ()
    # By id: a record can be found under several words, and again when it changes meanwhile.
    states: dict[RecordId, tuple[str, str]] = {}
    for _ in range(0, COUNT_MAX, READ_MAX):
        found = source(position, READ_MAX)
        rows = listings.rows_of({one for _, one in found}).values()
        states |= {row.id: (row.machine, row.state) for row in rows if wanted.fits(row)}
        if len(found) < READ_MAX:
            return Counter(states.values()), False
        position = found[-1][0]
    return Counter(states.values()), bool(source(position, 1))
