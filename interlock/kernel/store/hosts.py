"""What the computers of a deployment say of themselves, for producers and for other computers."""

from __future__ import annotations

import json
from collections.abc import Mapping

from interlock.kernel.store.keys import Keys
from interlock.kernel.store.scripts import Client, call

# A computer that has announced nothing for so long is no longer believed: it may be gone for good.
SILENCE_MS = 600_000


class Hosts:
    """The facts of each computer, by its host name, over one client."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self.client, self.keys = client, keys

    def announce(self, host: str, facts: Mapping[str, bool]) -> None:
        """Keep the facts of a computer, in place of those that it announced before."""
        written = json.dumps(dict(facts), sort_keys=True)
        plan = {"name": host, "said": written, "silence_ms": SILENCE_MS}
        call(self.client, "announce", self._names(), plan)

    def facts(self) -> dict[str, dict[str, bool]]:
        """Return the facts of every computer that has announced any in the last SILENCE_MS."""
        found = call(self.client, "list_facts", self._names(), {"silence_ms": SILENCE_MS})
        pairs = zip(found[::2], found[1::2], strict=True)
        return {host.decode(): json.loads(facts) for host, facts in pairs}

    def _names(self) -> dict[str, str]:
        return {"facts": self.keys.hosts(), "announced": self.keys.hosts_announced()}
