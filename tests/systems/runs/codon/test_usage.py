"""The limit of an execution that is passed first, and how its codon ends then."""

from __future__ import annotations

import time
from typing import Any

import pytest

from interlock.systems.runs.codon.transcript import Transcript
from interlock.systems.runs.codon.usage import (
    IDLE,
    OVER_BUDGET,
    TIMED_OUT,
    BudgetUsage,
    CodonLimits,
)
from interlock.systems.runs.machines.limits import MICRO_MAX
from interlock.systems.runs.machines.values import BudgetExceeded
from interlock.systems.runs.plan.model import BudgetPolicy, PlanBudget, PlannedCodon
from interlock.workers.supervision.reports import UsageTotal, UsedTokens

AGO_S = 1_000
# It used 500 micro-dollars and 40 tokens within AGO_S.
USED = UsageTotal(500, UsedTokens(output_tokens=40))


def limits(
    whole: PlanBudget | None = None, before: BudgetUsage | None = None, **codon: Any
) -> CodonLimits:
    """Return the limits of a codon whose process started AGO_S seconds ago."""
    planned = PlannedCodon(id="one", command="true", **{"idle_s": AGO_S * 10, **codon})
    made = CodonLimits(planned, whole, before or BudgetUsage())
    made.start()
    made.started_at -= AGO_S
    return made


def reason_to_end(made: CodonLimits, *, silent_s: float = AGO_S) -> str | None:
    transcript = Transcript(lambda _name, _data: None)
    transcript.hear(USED)
    return made.reason_to_end(transcript, time.monotonic() - silent_s)


@pytest.mark.parametrize(
    ("codon", "why"),
    [
        ({}, None),
        ({"timeout_s": AGO_S - 1}, TIMED_OUT),
        ({"timeout_s": AGO_S * 2}, None),
        ({"idle_s": AGO_S - 1}, IDLE),
        ({"idle_s": AGO_S * 2}, None),
        ({"timeout_s": AGO_S - 1, "idle_s": AGO_S - 1}, TIMED_OUT),
        ({"budget": PlanBudget(cost_micro=499)}, OVER_BUDGET),
        ({"budget": PlanBudget(cost_micro=500)}, None),
        ({"budget": PlanBudget(output_tokens=39)}, OVER_BUDGET),
        ({"budget": PlanBudget(output_tokens=40)}, None),
        ({"budget": PlanBudget(duration_s=AGO_S - 1)}, OVER_BUDGET),
        ({"budget": PlanBudget(duration_s=AGO_S * 2)}, None),
    ],
)
def test_each_limit_is_passed_where_more_was_used_than_it_allows(
    codon: dict[str, Any], why: str | None
) -> None:
    assert reason_to_end(limits(**codon)) == why


def test_a_sign_of_life_ends_its_silence_and_none_is_expected_before_it_began() -> None:
    assert reason_to_end(limits(idle_s=500), silent_s=400) is None
    assert reason_to_end(limits(idle_s=500), silent_s=600) == IDLE
    young = limits(idle_s=500)
    young.start()
    assert reason_to_end(young, silent_s=AGO_S) is None


@pytest.mark.parametrize(
    ("before", "whole", "why"),
    [
        (BudgetUsage(cost_micro=1), PlanBudget(cost_micro=500), OVER_BUDGET),
        (BudgetUsage(), PlanBudget(cost_micro=500), None),
        (BudgetUsage(output_tokens=1), PlanBudget(output_tokens=40), OVER_BUDGET),
        (BudgetUsage(duration_ms=1_500_000), PlanBudget(duration_s=2_000), OVER_BUDGET),
        (BudgetUsage(duration_ms=500_000), PlanBudget(duration_s=2_000), None),
    ],
)
def test_what_earlier_codons_used_counts_for_the_budget_of_the_whole(
    before: BudgetUsage, whole: PlanBudget, why: str | None
) -> None:
    assert reason_to_end(limits(whole, before)) == why
    assert reason_to_end(limits(None, before, budget=whole)) is None, (
        "and not for a codon's own budget"
    )


@pytest.mark.parametrize("policy", list(BudgetPolicy))
@pytest.mark.parametrize("budget_of", ["codon", "run"])
def test_the_budget_that_is_used_up_says_what_becomes_of_the_codon(
    policy: BudgetPolicy, budget_of: str
) -> None:
    (other,) = set(BudgetPolicy) - {policy}
    tight, wide = (
        PlanBudget(cost_micro=499, exceeded=policy),
        PlanBudget(cost_micro=900, exceeded=other),
    )
    own, whole = (tight, wide) if budget_of == "codon" else (wide, tight)
    made = limits(whole, budget=own)

    assert reason_to_end(made) == OVER_BUDGET

    assert made.policy is policy
    assert made.budget_exceeded == BudgetExceeded(currency="cost", limit=499, used=500)
    assert (
        made.reason_to_end(Transcript(lambda _name, _data: None), time.monotonic()) == OVER_BUDGET
    ), "for good"


def test_however_much_was_used_in_all_is_still_countable() -> None:
    made = limits(PlanBudget(cost_micro=1), BudgetUsage(cost_micro=MICRO_MAX))

    assert reason_to_end(made) == OVER_BUDGET
    assert made.budget_exceeded == BudgetExceeded(currency="cost", limit=1, used=MICRO_MAX)
