"""Counts the records in states that the tables of this process lack."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from interlock.kernel.machine import Machine
from interlock.kernel.record import PARTITIONS
from interlock.kernel.store.listings import Filter
from interlock.kernel.store.scripts import read_all
from interlock.kernel.store.state_reads import PAGE, StateKey
from interlock.workers.engine.dispatch import Dispatch


@dataclass(frozen=True, slots=True)
class Stranded:
    """How many records of a machine are in a state that its table lacks, and the id of one."""

    machine: str
    state: str
    count: int
    first: str

    def __str__(self) -> str:
        those = "1 record is" if self.count == 1 else f"{self.count} records are"
        return (
            f"{those} in {self.machine}/{self.state}, which the table no longer has"
            f" (such as {self.first})"
        )


def stranded_records(dispatch: Dispatch) -> Iterator[Stranded]:
    """Yield the states that other tables have had, that ours lack, and that have records."""
    return in_states(dispatch, dispatch.tables_elsewhere.states())


def in_states(dispatch: Dispatch, states: Mapping[str, set[str]]) -> Iterator[Stranded]:
    """Yield those of some states, by machine, that have records."""
    pairs = [(name, each) for name in sorted(states) for each in sorted(states[name])]
    keys = [StateKey(*pair, at) for pair in pairs for at in range(PARTITIONS)]
    numbers = dispatch.views.count_in_states(keys)
    for pair in pairs:
        found = [key for key in numbers if (key.machine, key.state) == pair and numbers[key]]
        rows = dispatch.views.list_in_states(dict.fromkeys(found, 1))
        if ids := sorted(row.id for listed in rows.values() for row in listed):
            yield Stranded(*pair, sum(numbers[key] for key in found), ids[0])


def count_by_state(dispatch: Dispatch, machine: str, states: Collection[str]) -> Counter[str]:
    """Return how many records of a machine are in each of these states."""
    keys = [StateKey(machine, each, at) for each in states for at in range(PARTITIONS)]
    found: Counter[str] = Counter()
    for key, number in dispatch.views.count_in_states(keys).items():
        found[key.state] += number
    return found


def states_in_use(dispatch: Dispatch, machine: Machine) -> set[str]:
    """Return the states of a machine's records as these name them, also such as no table names.

    Where as many records are in the states of the table as there are in all, that is a few round
    trips; else each record is read.
    """
    indexes = [dispatch.keys.creation_index(at, machine.name) for at in range(PARTITIONS)]
    created = sum(read_all(dispatch.client, [("ZCARD", index) for index in indexes]))
    counts = dispatch.views.counts([machine])[machine.name]
    found = {state for state, number in counts.items() if number}
    if created != counts.total():
        rows = dispatch.listings.rows(Filter(machines=[machine.name], states=()), size=PAGE)
        found |= {row.state for row in rows}
    return found
