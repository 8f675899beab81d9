"""Every combination of what can be known when a codon's process is over, and the end it has."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from interlock.kernel.machines.runs.values import FailureType
from interlock.workers.runs.outcome import (
    NO_PROCESS,
    Ended,
    Ending,
    Patience,
    exit_code_of,
    verdict_on,
)
from interlock.workers.runs.plan.model import Exceeded

ORDINARY = Ending(
    stopped=False,
    exit_code=0,
    result_received=True,
    session_opened=True,
    context_exceeded=False,
    context_may_end=False,
    budget_exceeded=None,
    skip_requested=False,
    out_of_time=None,
)
BOTH = (False, True)
ALL = [
    Ending(
        stopped=stopped,
        exit_code=exit_code,
        result_received=result,
        session_opened=opened,
        context_exceeded=full,
        context_may_end=may_end,
        budget_exceeded=budget,
        skip_requested=skip,
        out_of_time=late,
    )
    for stopped, exit_code, result, opened, full, may_end, budget, skip, late in product(
        BOTH,
        (NO_PROCESS, 0, 1, 130),
        BOTH,
        BOTH,
        BOTH,
        BOTH,
        (None, *Exceeded),
        BOTH,
        (None, *Patience),
    )
]


def completes(known: Ending) -> bool:
    """Tell from each reason to complete alone whether it holds."""
    reasons = {
        "done": known.result_received and known.exit_code == 0,
        "done before it was skipped": known.result_received and known.skip_requested,
        "full": known.context_exceeded and known.context_may_end,
        "dear": known.budget_exceeded == "complete",
    }
    return any(reasons.values()) and not known.stopped


def expected(known: Ending) -> Ended:
    if completes(known):
        return Ended.COMPLETED
    wished = known.skip_requested and not known.result_received
    return Ended.SKIPPED if wished and not known.stopped else Ended.FAILED


def test_every_combination_has_the_end_that_its_reasons_give() -> None:
    wrong = [known for known in ALL if verdict_on(known).status is not expected(known)]

    assert not wrong
    # None of the three ends is out of reach.
    assert len(Counter(verdict_on(known).status for known in ALL)) == 3


def test_only_a_failure_has_a_reason_and_each_has_one() -> None:
    for known in ALL:
        verdict = verdict_on(known)

        assert (verdict.failure is not None) is (verdict.status is Ended.FAILED)


def test_what_nobody_should_try_again_is_not_retriable() -> None:
    for known in ALL:
        failure = verdict_on(known).failure
        if failure is None:
            continue
        late = known.out_of_time is not None
        for_good = known.stopped or (
            not late and (known.budget_exceeded is Exceeded.FAIL or known.context_exceeded)
        )
        timeout = late and not known.stopped

        assert (failure.type is FailureType.TIMEOUT) is timeout
        assert failure.retriable is (timeout or (known.session_opened and not for_good))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stopped": True}, "the codon was stopped"),
        ({"exit_code": 3}, "the agent ended with 3"),
        ({"exit_code": 137}, "the agent ended with 137, which is SIGKILL"),
        ({"exit_code": -1, "result_received": False}, "there was no process"),
        ({"result_received": False}, "the agent ended without a result"),
        (
            {"exit_code": 143, "out_of_time": Patience.IDLE},
            "the agent was ended because it said nothing for too long",
        ),
        (
            {"exit_code": 143, "out_of_time": Patience.WHOLE},
            "the agent was ended because it took too long",
        ),
        (
            {"exit_code": 143, "budget_exceeded": Exceeded.FAIL},
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
    failure = verdict_on(replace(ORDINARY, **changes)).failure

    assert failure is not None
    assert failure.message == message


def test_an_error_is_classified_by_its_text_and_its_provider_s_wish() -> None:
    known = replace(ORDINARY, exit_code=1, error="status 429", retry_after_ms=5_000)

    failure = verdict_on(known).failure

    assert failure is not None
    assert (failure.type, failure.retry_after_ms) == (FailureType.RATE_LIMIT, 5_000)


def test_a_signal_is_no_exit_code_of_a_process_that_never_was() -> None:
    assert [exit_code_of(code) for code in (0, 3, -1, -2, -9)] == [0, 3, 129, 130, 137]
    assert NO_PROCESS not in {exit_code_of(code) for code in range(-64, 256)}
