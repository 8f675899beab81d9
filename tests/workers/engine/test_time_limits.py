"""An attempt is ordered to stop when its time is over, by whatever clock."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

from interlock.kernel.store.leases import Order
from interlock.workers.engine.attempt_limit import AttemptLimit
from interlock.workers.engine.time_limits import TimeLimits

BEGAN_MS = 1_796_016_006_742  # in seconds, this and 0.2 make more than 200 ms later, as floats do


def test_a_limit_is_over_at_its_millisecond_though_the_sum_of_floats_lies_above() -> None:
    now = SimpleNamespace(s=BEGAN_MS / 1_000)
    limits = TimeLimits(end=Mock(), clock=lambda: now.s)
    work: Any = Mock(limit=AttemptLimit(200))
    assert now.s + 0.2 > (BEGAN_MS + 200) / 1_000

    with limits.limiting(work):
        now.s = (BEGAN_MS + 199) / 1_000
        limits.look()
        assert not work.limit.has_passed
        now.s = (BEGAN_MS + 200) / 1_000
        limits.look()

    work.held.on_order.assert_called_once_with(Order.STOP, 0)
