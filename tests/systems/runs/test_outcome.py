"""Every combination of facts about a codon whose process is over, and its end."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from interlock.systems.runs.machines.values import FailureType
from interlock.systems.runs.outcome import (
    NO_PROCESS,
    CodonEnd,
    EndFacts,
    TimeLimit,
    exit_code_of,
    outcome_of,
)
from interlock.systems.runs.plan.model import BudgetPolicy

ORDINARY = EndFacts(
    stopped=False,
    exit_code=0,
    result_received=True,
    session_opened=True,
    context_exceeded=False,
    context_may_end=False,
    budget_exceeded=None,
    skip_requested=False,
    time_limit_passed=None,
)
BOTH = (False, True)
ALL = [
    EndFacts(
        stopped=stopped,
        exit_code=exit_code,
        result_received=result,
        session_opened=opened,
        context_exceeded=full,
        context_may_end=may_end,
        budget_exceeded=budget,
        skip_requested=skip,
        time_limit_passed=late,
    )
    for stopped, exit_code, result, opened, full, may_end, budget, skip, late in product(
        BOTH,
        (NO_PROCESS, 0, 1, 130),
        BOTH,
        BOTH,
        BOTH,
        BOTH,
        (None, *BudgetPolicy),
        BOTH,
        (None, *TimeLimit),
    )
]


def completes(facts: EndFacts) -> bool:
    """Return whether any single reason to complete holds."""
    reasons = {
        "finished": facts.result_received and facts.exit_code == 0,
        "finished before it was skipped": facts.result_received and facts.skip_requested,
        "full": facts.context_exceeded and facts.context_may_end,
        "over budget": facts.budget_exceeded == "complete",
    }
    return any(reasons.values()) and not facts.stopped


def expected(facts: EndFacts) -> CodonEnd:
    if completes(facts):
        return CodonEnd.COMPLETED
    skipped = facts.skip_requested and not facts.result_received
    return CodonEnd.SKIPPED if skipped and not facts.stopped else CodonEnd.FAILED


def test_every_combination_has_the_end_that_its_reasons_give() -> None:
    wrong = [facts for facts in ALL if outcome_of(facts).status is not expected(facts)]

    assert not wrong
    # Each of the three ends occurs.
    assert len(Counter(outcome_of(facts).status for facts in ALL)) == 3


def test_only_a_failure_has_a_reason_and_each_has_one() -> None:
    for facts in ALL:
        outcome = outcome_of(facts)

        assert (outcome.failure is not None) is (outcome.status is CodonEnd.FAILED)


def test_only_failures_that_may_pass_are_retriable() -> None:
    for facts in ALL:
        failure = outcome_of(facts).failure
        if failure is None:
            continue
        late = facts.time_limit_passed is not None
        final = facts.stopped or (
            not late and (facts.budget_exceeded is BudgetPolicy.FAIL or facts.context_exceeded)
        )
        timeout = late and not facts.stopped

        assert (failure.type is FailureType.TIMEOUT) is timeout
        assert failure.retriable is (timeout or (facts.session_opened and not final))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stopped": True}, "the codon was stopped"),
        ({"exit_code": 3}, "the agent ended with 3"),
        ({"exit_code": 137}, "the agent ended with 137, which is SIGKILL"),
        ({"exit_code": -1, "result_received": False}, "there was no process"),
        ({"result_received": False}, "the agent ended without a result"),
        (
            {"exit_code": 143, "time_limit_passed": TimeLimit.IDLE},
            "the agent was ended because it was silent for too long",
        ),
        (
            {"exit_code": 143, "time_limit_passed": TimeLimit.WHOLE},
            "the agent was ended because it took too long",
        ),
        (
            {"exit_code": 143, "budget_exceeded": BudgetPolicy.FAIL},
            "the codon's budget is exceeded",
        ),
        (
            {"exit_code": 1, "context_exceeded": True},
            "the conversation is longer than the model's context window",
        ),
        ({"exit_code": 1, "error": "boom"}, "boom"),
        ({"exit_code": 1, "context_exceeded": True, "error": "too\nlong"}, "too long"),
    ],
)
def test_a_failure_says_in_a_sentence_why(changes: dict[str, Any], message: str) -> None:
    failure = outcome_of(replace(ORDINARY, **changes)).failure

    assert failure is not None
    assert failure.message == message


def test_an_error_is_classified_by_its_text_and_its_provider_s_delay() -> None:
    facts = replace(ORDINARY, exit_code=1, error="status 429", retry_after_ms=5_000)

    failure = outcome_of(facts).failure

    assert failure is not None
    assert (failure.type, failure.retry_after_ms) == (FailureType.RATE_LIMIT, 5_000)


def test_a_signal_is_no_exit_code_of_a_process_that_never_was() -> None:
    assert [exit_code_of(code) for code in (0, 3, -1, -2, -9)] == [0, 3, 129, 130, 137]
    assert NO_PROCESS not in {exit_code_of(code) for code in range(-64, 256)}
