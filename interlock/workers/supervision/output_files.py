"""Reads the output of this computer's agents from their files, as it is published.

The output of an agent that has ended is read in the same way, as long as its files are kept.
"""

from __future__ import annotations

import time
from pathlib import Path

from interlock.kernel.store.outputs import ERRORS, OUTPUT, PART_BYTES_MAX, OutputPart
from interlock.kernel.store.publications import Fields
from interlock.workers.config import Settings
from interlock.workers.engine.work_secrets import secrets_of
from interlock.workers.files.tail import last_bytes
from interlock.workers.redaction import Redaction


class OutputFiles:
    """The files below the home of Interlock in which the output of agents is."""

    def __init__(self, settings: Settings) -> None:
        self._home = settings.home.resolve()
        self._redaction = Redaction(secrets_of(settings))

    def read(self, folder: str) -> Fields | None:
        """Return the newest output in a folder below the home; None if there is none."""
        place = (self._home / folder).resolve()
        # A program that may write to the store could ask for a file of another program.
        if not place.is_relative_to(self._home):
            return None
        try:
            output, end = self._end_of(place / OUTPUT)
            errors, errors_end = self._end_of(place / ERRORS)
            printed_s = max((place / name).stat().st_mtime for name in (OUTPUT, ERRORS))
        except OSError:
            return None
        age_ms = max(round((time.time() - printed_s) * 1_000), 0)
        return OutputPart(output, end, errors, errors_end, age_ms).fields()

    def _end_of(self, file: Path) -> tuple[bytes, int]:
        """Return the end of a file without its secrets, and the size of the whole file."""
        # The part may begin within a secret, which is recognized only if all of it is read.
        found, size = last_bytes(file, PART_BYTES_MAX + self._redaction.longest)
        return self._redaction.hidden(found)[-PART_BYTES_MAX:], size
