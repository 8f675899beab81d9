"""Announces a computer or a process while it runs: the store forgets who is silent."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from interlock.kernel.errors import StoreError

log = logging.getLogger(__name__)

PERIOD_S = 60.0  # a tenth of the silence after which a computer is no longer believed


class Announcer:
    """Repeats what a computer or a process says of itself, in a thread, until it is stopped."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._stopped = threading.Event()

    def start(self, announce: Callable[[], None]) -> None:
        """Announce it now, and from now on again and again."""
        self._announce(announce)
        threading.Thread(
            target=self._repeat, args=(announce,), name="announcements", daemon=True
        ).start()

    def stop(self) -> None:
        """Announce nothing more: the process ends."""
        self._stopped.set()

    def _repeat(self, announce: Callable[[], None]) -> None:
        while not self._stopped.wait(PERIOD_S):
            self._announce(announce)

    def _announce(self, announce: Callable[[], None]) -> None:
        try:
            announce()
        except StoreError as refusal:
            # Without the facts, work that this computer cannot do is refused later.
            log.warning("%s has not announced itself: %s", self._name, refusal)
