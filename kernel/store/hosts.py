"""What the machines of a deployment say of themselves, for producers and for other machines."""

from __future__ import annotations

import json
from collections.abc import Mapping

from interlock.kernel.store.keys import Keys
from interlock.kernel.store.scripts import Client, call, read


class Hosts:
    """The facts of each machine, by its host name, over one client."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self.client, self.keys = client, keys

    def announce(self, host: str, facts: Mapping[str, bool]) -> None:
        """Keep the facts of a machine, in place of those that it announced before."""
        written = json.dumps(dict(facts), sort_keys=True)
        call(self.client, "announce", [self.keys.hosts()], [host, written])

    def facts(self) -> dict[str, dict[str, bool]]:
        """Return the facts of every machine that has announced any."""
        pairs = read(self.client, "HGETALL", self.keys.hosts())
        return {host.decode(): json.loads(facts) for host, facts in dict(pairs).items()}
