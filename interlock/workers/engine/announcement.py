"""Announces what this computer has while its worker runs: the store forgets who is silent."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping

from interlock.kernel.errors import StoreError
from interlock.kernel.store.hosts import Hosts

log = logging.getLogger(__name__)

PERIOD_S = 60.0  # a tenth of the silence after which a computer is no longer believed


class Announcer:
    """Repeats the facts of one computer from a thread of its own, until it is stopped."""

    def __init__(self, hosts: Callable[[], Hosts], host: str) -> None:
        self._hosts, self._host = hosts, host
        self._stopped = threading.Event()

    def start(self, facts: Mapping[str, bool]) -> None:
        """Announce the facts now, and from now on again and again."""
        self._announce(facts)
        threading.Thread(
            target=self._repeat, args=(facts,), name="announcements", daemon=True
        ).start()

    def stop(self) -> None:
        """Announce nothing more: the worker ends."""
        self._stopped.set()

    def _repeat(self, facts: Mapping[str, bool]) -> None:
        while not self._stopped.wait(PERIOD_S):
            self._announce(facts)

    def _announce(self, facts: Mapping[str, bool]) -> None:
        try:
            self._hosts().announce(self._host, facts)
        except StoreError as refusal:
            # Without the facts, work that this computer cannot do is refused later.
            log.warning("%s has not announced itself: %s", self._host, refusal)
