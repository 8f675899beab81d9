"""The scripts that repair the sums and held names of a family, and the indexes of records."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from interlock.kernel.record import Record, partition_of
from interlock.kernel.store import codec
from interlock.kernel.store.commands import packed
from interlock.kernel.store.keys import Keys
from interlock.kernel.store.scripts import Client, call, call_all, read
from interlock.kernel.store.titles import names_of

NOTHING_YET = "0-0"


class Repairs:
    """Corrects sums, frees names and fills indexes, over one client. Every call may be repeated."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self.client, self.keys = client, keys

    def position(self, root: str) -> str:
        """Return the position of a family's newest commit in its log."""
        newest = read(self.client, "XREVRANGE", self.keys.family_log(root), "+", "-", "COUNT", 1)
        return str(newest[0][0].decode()) if newest else NOTHING_YET

    def recount(
        self, root: str, sums: Mapping[str, Mapping[str, int]], *, position: str, why: Any
    ) -> str:
        """Set counters of records of a family that has a log. `why` is noted on the root.

        Returns recounted, moved (something was committed after `position`) or missing.
        """
        names = [self.keys.family_log(root), self.keys.record(root), self.keys.log(root)]
        names += map(self.keys.counters, sums)
        counters = [{name: str(n) for name, n in each.items()} for each in sums.values()]
        plan = packed({"position": position, "sums": counters})
        args = [plan, codec.encode(why, "the note")]
        status: bytes = call(self.client, "recount", names, args)[0]
        return status.decode()

    def free(self, root: str, name: str, holder: str) -> str:
        """Free a name whose holder does not exist, or has ended. Returns freed, moved or lives."""
        keys, partition = self.keys, partition_of(root)
        names = [keys.holds(root), keys.record(holder)]
        names += [keys.hold_queue(root), keys.effects(partition)]
        status: bytes = call(self.client, "free_hold", names, [name, holder])[0]
        return status.decode()

    def index(self, records: Sequence[Record]) -> list[str]:
        """Add records, with the titles that they have here, to the indexes by creation and name.

        Returns for each indexed, moved (it was changed after it was read) or missing.
        """
        calls: list[tuple[list[str], list[Any]]] = []
        for record in records:
            partition = partition_of(record.id)
            indexes = self.keys.list_indexes(partition, record.machine)
            names = json.dumps(names_of(record))
            calls.append(
                (
                    [self.keys.record(record.id), *indexes],
                    [record.id, str(record.version), record.title, names],
                )
            )
        replies = call_all(self.client, "index_record", calls)
        return [reply[0].decode() for reply in replies]
