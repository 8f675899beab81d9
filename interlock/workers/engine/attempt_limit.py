"""How long one attempt at an effect may take, and what follows if it takes longer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from interlock.workers.text import duration


class TookTooLongError(RuntimeError):
    """An attempt took longer than its effect allows; the message says how long that is."""


class AttemptLimit:
    """How long one attempt may take, and what follows if it takes longer."""

    def __init__(self, ms: int) -> None:
        self.ms = ms
        self.has_passed = False
        self.place = ""  # where the handler was, if it did not stop
        # The handler may set these: the Outcome of an attempt that took too long, by the sentence
        # that says so, in place of a failure; what gives its thread back although it goes on; where
        # it is at work, if that is not in the thread that waits for it.
        self.outcome: Callable[[str], Any] = lambda _: None
        self.detach: Callable[[], bool] = lambda: False
        self.place_of: Callable[[], str] | None = None

    @property
    def error(self) -> TookTooLongError:
        """What an attempt that took too long fails with."""
        where = f", and does not stop; it is at {self.place}" if self.place else ""
        return TookTooLongError(f"it took longer than {duration(self.ms)}{where}")
