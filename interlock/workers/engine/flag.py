"""A flag that a heartbeat's thread sets, and that the work under its lease reads."""

from __future__ import annotations


class Flag:
    """A flag that one thread sets and another reads; unlike an Event, no thread can wait for it."""

    __slots__ = ("_set",)

    def __init__(self) -> None:
        self._set = False

    def set(self) -> None:
        """Set the flag."""
        self._set = True

    def is_set(self) -> bool:
        """Whether the flag is set."""
        return self._set
