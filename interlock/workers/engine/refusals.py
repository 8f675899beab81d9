"""Waits while a store or a broker refuses this process or is away, and logs that once."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import cache

log = logging.getLogger(__name__)

POLL_S = 1.0


class Refusals:
    """Logs the first refusal of a server and the end of its refusals; those between say the same.

    `server` is its name in a sentence: the store, the broker. `refusals_of` makes them.
    """

    def __init__(self, server: str) -> None:
        self.server = server
        self._refused = False

    def begin(self, refusal: Exception) -> None:
        """Note that the server refuses."""
        if not self._refused:
            log.warning("this process waits for %s: %s", self.server, refusal)
        self._refused = True

    def end(self) -> None:
        """Note that the server refuses nothing any more."""
        if self._refused:
            log.warning("%s does not refuse this process any more", self.server)
        self._refused = False


@cache
def refusals_of(server: str) -> Refusals:
    """Return the refusals of a server: all parts of this process share them, and log one line."""
    return Refusals(server)


class Repeated:
    """A call that is made again later, whether the server refuses it or not."""

    def __init__(self, server: str, errors: tuple[type[Exception], ...]) -> None:
        self._refusals, self._errors = refusals_of(server), errors
        self._refused = False

    def __call__(self, call: Callable[[], object]) -> None:
        """Call it. One of these errors is only noted."""
        try:
            call()
        except self._errors as refusal:
            self._refused = True
            self._refusals.begin(refusal)
        else:
            # A call that found nothing to do was not accepted: only one that was refused before
            # shows that the server refuses no more.
            if self._refused:
                self._refusals.end()
            self._refused = False


def repeat_while_refused(
    server: str, call: Callable[[], object], errors: tuple[type[Exception], ...]
) -> None:
    """Repeat a call, with a second between two tries, until it raises none of these errors."""
    refusals = refusals_of(server)
    while True:
        try:
            call()
        except errors as refusal:
            refusals.begin(refusal)
        else:
            refusals.end()
            return
        time.sleep(POLL_S)
