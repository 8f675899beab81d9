"""Publishes the output of this computer's agents to those who look at it, from a worker's thread.

The output of an agent that has ended is published in the same way, as long as its files are kept.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

from interlock.kernel.errors import StoreError
from interlock.kernel.store.outputs import PART_BYTES_MAX, OutputPart, Outputs, OutputSource
from interlock.workers.config import Settings
from interlock.workers.engine.refusals import Repeated
from interlock.workers.files.tail import last_bytes
from interlock.workers.supervision.redaction import Redaction, secrets_of

log = logging.getLogger(__name__)

OUTPUT, ERRORS = "output.log", "errors.log"
POLL_S = 0.5  # while somebody looks
IDLE_POLL_S = 1.0


class OutputPublisher:
    """Publishes what is asked for on one computer, until it is stopped."""

    def __init__(self, outputs: Callable[[], Outputs], settings: Settings) -> None:
        self._outputs, self._host = outputs, settings.host
        self._home = settings.home.resolve()
        self._redaction = Redaction(secrets_of(settings))
        self._stopped = threading.Event()

    def start(self) -> None:
        """Publish from now on, in a thread of its own."""
        threading.Thread(target=self._repeat, name="outputs", daemon=True).start()

    def stop(self) -> None:
        """Publish nothing more: the worker ends."""
        self._stopped.set()

    def publish(self) -> int:
        """Publish the newest part of each output that is asked for; return how many there are.

        Raises StoreError.
        """
        outputs = self._outputs()
        asked = outputs.asked(self._host)
        for folder in asked:
            outputs.publish(OutputSource(self._host, folder), self._read(folder))
        return len(asked)

    def _repeat(self) -> None:
        publishing, found = Repeated("the store", (StoreError,)), 0

        def publish() -> None:
            nonlocal found
            found = 0
            found = self.publish()

        while not self._stopped.wait(POLL_S if found else IDLE_POLL_S):
            try:
                publishing(publish)
            except Exception:
                # Without this thread nobody would see the output of this computer's agents.
                log.exception("the output of agents is not published this time")

    def _read(self, folder: str) -> OutputPart | None:
        """Return the newest output in a folder below the home; None if there is none."""
        place = (self._home / folder).resolve()
        # Whoever may write to the store could ask for a file of another program.
        if not place.is_relative_to(self._home):
            return None
        try:
            output, end = self._end_of(place / OUTPUT)
            errors, errors_end = self._end_of(place / ERRORS)
            printed_s = max((place / name).stat().st_mtime for name in (OUTPUT, ERRORS))
        except OSError:
            return None
        age_ms = max(round((time.time() - printed_s) * 1_000), 0)
        return OutputPart(output, end, errors, errors_end, age_ms)

    def _end_of(self, file: Path) -> tuple[bytes, int]:
        """Return the end of a file without its secrets, and the size of the whole file."""
        # The part may begin within a secret, which is recognized only if all of it is read.
        found, size = last_bytes(file, PART_BYTES_MAX + self._redaction.longest)
        return self._redaction.hidden(found)[-PART_BYTES_MAX:], size
