"""A pass of the orphan sweep sees by how much the clock of the store was set since the last one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from interlock.kernel.store.clocks import Jump, Pass
from interlock.workers.engine.passes import Seen, jump_between
from tests.kernel.store.kernel_at_a_fixed_time import START_US

HOUR_MS, START_MS, TOLERANCE_MS = 3_600_000, START_US // 1_000, 15_000


def seen(at_ms: int, *, ahead_ms: int = 0, moves: int = 0) -> Seen:
    """Return a pass at a time, where the clock of the store is ahead by so much."""
    now_ms = START_MS + at_ms + ahead_ms
    return Seen(Pass(now_ms, now_ms - 1_000, moves), at_ms, at_ms + 2)


@pytest.mark.parametrize("ahead_ms", [HOUR_MS, -HOUR_MS])
def test_a_clock_that_was_set_is_seen_by_a_clock_that_nobody_sets(ahead_ms: int) -> None:
    found = jump_between(seen(0), seen(60_000, ahead_ms=ahead_ms), TOLERANCE_MS)

    assert found is not None
    assert abs(found.ms - ahead_ms) <= 2
    assert abs(found.old_until - (START_MS + 60_000)) <= 2


def test_a_process_that_stood_still_while_it_read_the_clock_sees_no_jump() -> None:
    for slow in (replace(seen(0), after_ms=30_000), replace(seen(30_000), before_ms=0)):
        assert jump_between(slow, seen(60_000), TOLERANCE_MS) is None
        assert jump_between(seen(0), seen(300_000), TOLERANCE_MS) is None


def test_a_jump_that_another_process_has_answered_is_not_answered_again() -> None:
    assert jump_between(seen(0), seen(9, ahead_ms=HOUR_MS, moves=1), TOLERANCE_MS) is None


def test_a_process_that_never_passed_sees_a_clock_that_is_behind_the_last_pass() -> None:
    now = seen(60_000)
    behind = replace(now, read=replace(now.read, last_ms=now.read.now_ms + HOUR_MS))

    assert jump_between(None, now, TOLERANCE_MS) is None
    assert jump_between(None, behind, TOLERANCE_MS) == Jump(
        -HOUR_MS, now.read.now_ms + HOUR_MS, moves=0
    )
