"""The scripts that mend what a family shares and sums; who calls them has found what is right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlock.kernel.store import codec
from interlock.kernel.store.commands import packed
from interlock.kernel.store.keys import Keys
from interlock.kernel.store.scripts import Client, call, read

NOTHING_YET = "0-0"


class Repairs:
    """Recounts and frees, over one client. Every call may be repeated."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self.client, self.keys = client, keys

    def position(self, root: str) -> str:
        """Return where the newest commit of a family is in its log."""
        newest = read(self.client, "XREVRANGE", self.keys.family_log(root), "+", "-", "COUNT", 1)
        return str(newest[0][0].decode()) if newest else NOTHING_YET

    def recount(
        self, root: str, sums: Mapping[str, Mapping[str, int]], *, position: str, why: Any
    ) -> str:
        """Set counters of records of a family that has a log: recounted, moved or missing.

        They are refused where anything was committed after `position`; `why` is noted on the root.
        """
        names = [self.keys.family_log(root), self.keys.record(root), self.keys.log(root)]
        names += map(self.keys.counters, sums)
        told = [{name: str(n) for name, n in one.items()} for one in sums.values()]
        plan = packed({"position": position, "sums": told})
        args = [plan, codec.encode(why, "the note")]
        word: bytes = call(self.client, "recount", names, args)[0]
        return word.decode()

    def free(self, root: str, name: str, holder: str) -> str:
        """Free a name whose holder is not there, or has ended: freed, moved or lives."""
        names = [self.keys.holds(root), self.keys.record(holder)]
        word: bytes = call(self.client, "free_hold", names, [name, holder])[0]
        return word.decode()
