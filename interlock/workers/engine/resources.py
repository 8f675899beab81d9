"""The connections of a process to models, capabilities and other outside things, opened once each.

A module that reaches an outside thing defines its opener, a function from the settings to the
thing. A process opens only the things that its handlers ask for: a supervisor, which is started
for every agent, opens none of them and imports none of their libraries.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from typing import Any, TypeVar

from interlock.workers.config import Settings

Resource = TypeVar("Resource")


class Resources:
    """The outside things that handlers use. Opening is safe from many threads."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._lock = RLock()
        self._opened: dict[Callable[[Settings], Any], Any] = {}

    def get(self, opener: Callable[[Settings], Resource]) -> Resource:
        """Return the thing of an opener; the first call opens it. Raises what the opener raises."""
        with self._lock:
            if opener not in self._opened:
                self._opened[opener] = opener(self.settings)
            resource: Resource = self._opened[opener]
        return resource
