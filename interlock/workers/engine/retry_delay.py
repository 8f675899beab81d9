"""How long a failed effect waits before it is tried again.

How often it is tried is a field of the effect: `attempts_max` in interlock/kernel/effect.py.
"""

from __future__ import annotations

FIRST_MS = 1_000
MAXIMUM_MS = 600_000


def retry_delay_ms(attempt: int) -> int:
    """Return the delay after an attempt, counted from 1: it doubles from 1 s to 10 minutes."""
    return min(FIRST_MS << (attempt - 1), MAXIMUM_MS)
