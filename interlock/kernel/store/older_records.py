"""Finds the records that an older version of their table has left."""

from __future__ import annotations

from collections.abc import Iterator

from interlock.kernel.machine import Machine
from interlock.kernel.record import PARTITIONS, RecordId
from interlock.kernel.store.keys import Keys
from interlock.kernel.store.scripts import Client, read_all
from interlock.kernel.store.state_reads import StateKey
from interlock.kernel.store.views import Views
from interlock.kernel.table import Terminal

BATCH = 500


class OlderRecords:
    """The records in renamed states, and those with data of an older schema that have not ended.

    Records that have ended keep their data: whoever reads them reads them by `migrate`.
    """

    def __init__(self, client: Client, keys: Keys) -> None:
        self.client, self.keys = client, keys
        self.views = Views(client, keys)

    def partitions(self, machine: Machine) -> set[int]:
        """Return the partitions that may have some."""
        asked = [*_states(machine, range(PARTITIONS))]
        return {
            key.partition for key, number in self.views.count_in_states(asked).items() if number
        }

    def all_ids(self, machine: Machine) -> Iterator[RecordId]:
        """Yield the ids of all of them."""
        for partition in sorted(self.partitions(machine)):
            yield from self.ids(machine, partition)

    def ids(self, machine: Machine, partition: int) -> Iterator[RecordId]:
        """Yield the ids of those in one partition, a page of records in one round trip."""
        for key in _states(machine, (partition,)):
            page = list[RecordId]()
            for row in self.views.list_in_state_since(key):
                page.append(row.id)
                if len(page) == BATCH:
                    yield from self._older(machine, key.state, page)
                    page = []
            yield from self._older(machine, key.state, page)

    def _older(self, machine: Machine, state: str, page: list[RecordId]) -> Iterator[RecordId]:
        if state in machine.renamed:
            yield from page
            return
        found = read_all(self.client, [("HGET", self.keys.record(one), "schema") for one in page])
        rows = zip(page, found, strict=True)
        yield from (one for one, schema in rows if schema and int(schema) < machine.schema)


def _states(machine: Machine, partitions: range | tuple[int, ...]) -> Iterator[StateKey]:
    states = [*machine.renamed]
    if machine.schema > 1:
        states += [str(each.state) for each in machine.stages if not isinstance(each, Terminal)]
    yield from (StateKey(machine.name, state, at) for state in states for at in partitions)
