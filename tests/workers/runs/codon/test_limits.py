"""Which limit of an execution is passed first, and what then becomes of its codon."""

from __future__ import annotations

import time
from typing import Any

import pytest

from interlock.kernel.machines.runs.values import MICRO_MAX, BudgetExceeded
from interlock.workers.runs.codon.budget import Used
from interlock.workers.runs.codon.limits import IDLE, SPENT, TIMED_OUT, Limits
from interlock.workers.runs.codon.transcript import Hearing
from interlock.workers.runs.plan.model import Budget, Exceeded, PlannedCodon
from interlock.workers.supervision.session_reports import CostsSet, TokenCounts

AGO_S = 100
# What it used: 500 micro-dollars and 40 tokens within 100 s, before which it had said nothing.
USED = CostsSet(500, TokenCounts(output_tokens=40))


def limits(whole: Budget | None = None, before: Used | None = None, **codon: Any) -> Limits:
    """Return the limits of a codon whose process began a while ago."""
    planned = PlannedCodon(id="one", command="true", **{"idle_s": 1_000, **codon})
    made = Limits(planned, whole, before or Used())
    made.begin()
    made.began -= AGO_S
    return made


def passed(made: Limits, *, silent_s: float = AGO_S) -> str | None:
    hearing = Hearing(lambda _name, _data: None)
    hearing.feed(USED)
    return made.passed(hearing, time.monotonic() - silent_s)


@pytest.mark.parametrize(
    ("codon", "why"),
    [
        ({}, None),
        ({"timeout_s": AGO_S - 1}, TIMED_OUT),
        ({"timeout_s": AGO_S * 2}, None),
        ({"idle_s": AGO_S - 1}, IDLE),
        ({"idle_s": AGO_S * 2}, None),
        ({"timeout_s": AGO_S - 1, "idle_s": AGO_S - 1}, TIMED_OUT),
        ({"budget": Budget(cost_micro=499)}, SPENT),
        ({"budget": Budget(cost_micro=500)}, None),
        ({"budget": Budget(output_tokens=39)}, SPENT),
        ({"budget": Budget(output_tokens=40)}, None),
        ({"budget": Budget(duration_s=AGO_S - 1)}, SPENT),
        ({"budget": Budget(duration_s=AGO_S * 2)}, None),
    ],
)
def test_each_limit_is_passed_where_more_was_used_than_it_allows(
    codon: dict[str, Any], why: str | None
) -> None:
    assert passed(limits(**codon)) == why


def test_a_sign_of_life_ends_its_silence_and_none_is_expected_before_it_began() -> None:
    assert passed(limits(idle_s=50), silent_s=40) is None
    assert passed(limits(idle_s=50), silent_s=60) == IDLE
    young = limits(idle_s=50)
    young.begin()
    assert passed(young, silent_s=AGO_S) is None


@pytest.mark.parametrize(
    ("before", "whole", "why"),
    [
        (Used(cost_micro=1), Budget(cost_micro=500), SPENT),
        (Used(), Budget(cost_micro=500), None),
        (Used(output_tokens=1), Budget(output_tokens=40), SPENT),
        (Used(duration_ms=150_000), Budget(duration_s=200), SPENT),
        (Used(duration_ms=50_000), Budget(duration_s=200), None),
    ],
)
def test_what_earlier_codons_used_counts_for_the_budget_of_the_whole(
    before: Used, whole: Budget, why: str | None
) -> None:
    assert passed(limits(whole, before)) == why
    assert passed(limits(None, before, budget=whole)) is None, "and for no codon's own"


@pytest.mark.parametrize("policy", list(Exceeded))
@pytest.mark.parametrize("whose", ["own", "whole"])
def test_the_budget_that_is_used_up_says_what_becomes_of_the_codon(
    policy: Exceeded, whose: str
) -> None:
    (other,) = set(Exceeded) - {policy}
    tight, wide = Budget(cost_micro=499, exceeded=policy), Budget(cost_micro=900, exceeded=other)
    own, whole = (tight, wide) if whose == "own" else (wide, tight)
    made = limits(whole, budget=own)

    assert passed(made) == SPENT

    assert made.policy is policy
    assert made.over == BudgetExceeded(currency="cost", limit=499, used=500)
    assert made.passed(Hearing(lambda _name, _data: None), time.monotonic()) == SPENT, "for good"


def test_however_much_was_used_in_all_is_still_countable() -> None:
    made = limits(Budget(cost_micro=1), Used(cost_micro=MICRO_MAX))

    assert passed(made) == SPENT
    assert made.over == BudgetExceeded(currency="cost", limit=1, used=MICRO_MAX)
