"""The scripts that repair the sums and the held names of a family."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlock.kernel.record import partition_of
from interlock.kernel.store import codec
from interlock.kernel.store.commands import packed
from interlock.kernel.store.keys import Keys
from interlock.kernel.store.scripts import Client, call, read

NOTHING_YET = "0-0"


class Repairs:
    """Corrects sums and frees names, over one client. Every call may be repeated."""

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
