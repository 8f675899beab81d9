"""Calculates what a call of a capability would cost, within a time limit."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from sys import float_info
from threading import BoundedSemaphore, Thread
from time import monotonic
from typing import Any

COST_S_MAX = 1.0
CALLS_MAX = 4  # of one function at the same time; a call that takes too long still runs
_log = logging.getLogger(__name__)
_SLOW = f"its cost function takes longer than {COST_S_MAX:g} s"


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """What a call would cost in dollars; None if it is not known.

    `problem` says why it could not be calculated; it is '' where no cost is declared.
    """

    dollars: float | None
    problem: str = ""


def is_amount(value: object) -> bool:
    """Return whether a value is an amount of dollars, 0 or more."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return 0 <= value <= float_info.max  # a larger int is no float


class CostCalculation:
    """Calls the cost function of one capability for all who look at its cards. Safe in threads."""

    def __init__(self) -> None:
        self._free = BoundedSemaphore(CALLS_MAX)

    def estimate(self, function: Callable[..., Any], parameters: Mapping[str, Any]) -> CostEstimate:
        """Return what a function of a user says. A person waits for it no longer than COST_S_MAX.

        A thread cannot be ended, so one that takes too long goes on. Where CALLS_MAX of them run,
        the function is not called again until one has ended.
        """
        until_s = monotonic() + COST_S_MAX
        if not self._free.acquire(timeout=COST_S_MAX):
            return CostEstimate(None, _SLOW)
        answers: SimpleQueue[CostEstimate] = SimpleQueue()

        def calculate() -> None:
            try:
                answers.put(_estimate(function, parameters))
            finally:
                self._free.release()

        Thread(target=calculate, name="cost", daemon=True).start()
        try:
            return answers.get(timeout=max(until_s - monotonic(), 0))
        except Empty:
            _log.warning("%r takes longer than %g s", function, COST_S_MAX)
            return CostEstimate(None, _SLOW)


def _estimate(function: Callable[..., Any], parameters: Mapping[str, Any]) -> CostEstimate:
    try:
        amount = function(**parameters)
    except Exception:  # noqa: BLE001 - a card must be shown, whatever a user's function raises
        _log.exception("the cost function %r failed", function)
        return CostEstimate(None, "its cost function failed; the log of this server has the error")
    if is_amount(amount):
        return CostEstimate(float(amount))
    _log.error("the cost function %r returned %r, not dollars, 0 or more", function, amount)
    return CostEstimate(None, "its cost function did not return an amount of dollars, 0 or more")
