"""How long a failed effect waits before it is tried again.

How often it is tried, and how long it waits at first, are fields of the effect: `attempts_max` and
`retry_delay_ms` in interlock/kernel/effect.py.
"""

from __future__ import annotations

from interlock.kernel.effect import Effect

MAXIMUM_MS = 600_000  # the longest delay


def retry_delay_ms(effect: Effect, attempt: int) -> int:
    """Return the delay after an attempt, counted from 1: it doubles, up to ten minutes.

    A first delay that is longer than that stays as it is.
    """
    first_ms = effect.retry_delay_ms
    return min(first_ms << (attempt - 1), max(first_ms, MAXIMUM_MS))
