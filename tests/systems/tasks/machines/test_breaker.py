"""When the breaker cuts an agent off: exactly beyond each limit, and the gravest cause first."""

from __future__ import annotations

import pytest

from interlock.kernel.reason import AbortReason, TransitionReason
from interlock.systems.tasks.machines.breaker import BreakerLimits, TripCause, tripped

LIMITS = BreakerLimits(budget_micro=100, failures_max=3)


@pytest.mark.parametrize(
    ("spent", "failures", "outside", "cause"),
    [
        (100, 2, (), None),
        (101, 0, (), TripCause.BUDGET),
        (0, 3, (), TripCause.FAILURES),
        (0, 0, ("a.py",), TripCause.SCOPE),
        (101, 3, ("a.py",), TripCause.SCOPE),
        (101, 3, (), TripCause.BUDGET),
    ],
)
def test_it_trips_beyond_each_limit(
    spent: int, failures: int, outside: tuple[str, ...], cause: TripCause | None
) -> None:
    trip = tripped(LIMITS, spent_micro=spent, failures_in_row=failures, outside=outside)

    assert (trip.cause if trip else None) is cause


def test_without_a_budget_any_cost_goes() -> None:
    assert tripped(BreakerLimits(), spent_micro=10**15, failures_in_row=4, outside=()) is None


def test_a_violation_of_scope_is_final_and_names_the_files() -> None:
    trip = tripped(LIMITS, spent_micro=0, failures_in_row=0, outside=tuple("abcdefg"))

    assert trip is not None
    assert trip.final
    assert trip.reason == "it changed files that it does not own: a, b, c, d, e"
    assert trip.abort is AbortReason.PERMISSION_DENIED
    assert trip.why is TransitionReason.PERMISSION_DENIED
