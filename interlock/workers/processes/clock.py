"""The clock of leases. It also runs while the computer sleeps, as that of the store does."""

import time

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def clock() -> float:
    """Return the seconds of a clock that nobody sets."""
    return time.clock_gettime(_CLOCK)
