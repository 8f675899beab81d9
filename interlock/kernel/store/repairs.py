"""The scripts that repair the sums and the held names of a family."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlock.kernel.store import codec
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
        named = self.keys.of(root, counters=[*map(self.keys.counters, sums)])
        plan = {
            "position": position,
            "sums": [{name: str(n) for name, n in each.items()} for each in sums.values()],
            "detail": codec.encode(why, "the note"),
        }
        status: bytes = call(self.client, "recount", named, plan)[0]
        return status.decode()

    def free(self, root: str, name: str, holder: str) -> str:
        """Free a name whose holder does not exist, or has ended. Returns freed, moved or lives."""
        named = self.keys.of(root, record=self.keys.record(holder))
        plan = {"name": name, "holder": holder}
        status: bytes = call(self.client, "free_hold", named, plan)[0]
        return status.decode()
