from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from interlock.workers.gateways.llm.outcome import Answered, TokenUsage
from tests.fakes.openai_server import (
    OpenAIServer,
    Reply,
    breaks_off,
    hangs,
    refuses,
    says,
)
from tests.fakes.sleeper import Sleeper
from tests.systems.threads.inference.questions import (
    ACTION,
    BROKEN,
    INVALID,
    LATE,
    answered,
    ask,
    failed,
    model_at,
    outcome_of,
    question,
)


@pytest.mark.parametrize("status", [429, 529, 500, 503, 408])
def test_a_transient_error_is_tried_again(status: int) -> None:
    outcome, server = outcome_of(refuses(status), says(ACTION))

    # A refused request is not billed.
    assert answered(outcome).usage == TokenUsage(input_tokens=120, output_tokens=30, requests=2)
    assert outcome.cost_micro == 36
    assert len(server.asked) == 2


@pytest.mark.parametrize("status", [429, 529, 500])
def test_attempts_are_capped(status: int) -> None:
    outcome, server = outcome_of(*[refuses(status)] * 9, attempts_max=3)

    assert failed(outcome).code is BROKEN
    assert f"status {status}" in failed(outcome).detail
    assert "after 3 requests" in failed(outcome).detail
    assert len(server.asked) == 3
    assert outcome.usage == TokenUsage(requests=3)
    assert outcome.cost_micro == 0


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_a_lasting_error_is_not_tried_again(status: int) -> None:
    outcome, server = outcome_of(refuses(status))

    assert failed(outcome).code is BROKEN
    assert len(server.asked) == 1


def test_a_provider_that_says_not_to_retry_is_obeyed() -> None:
    outcome, server = outcome_of(refuses(503, **{"x-should-retry": "false"}))

    assert failed(outcome).code is BROKEN
    assert len(server.asked) == 1


def test_an_exhausted_account_is_not_tried_again() -> None:
    body = b'{"error": {"message": "pay", "type": "x", "code": "insufficient_quota"}}'
    outcome, server = outcome_of(Reply(body, status=429))

    assert failed(outcome).code is BROKEN
    assert len(server.asked) == 1


def test_retry_after_in_seconds_is_waited_for() -> None:
    sleeper = Sleeper()
    outcome, _ = outcome_of(
        refuses(429, retry_after="7"), refuses(529, retry_after="3"), says(ACTION), sleep=sleeper
    )

    answered(outcome)
    assert sleeper.asked == [7, 3]


def test_retry_after_as_a_date_is_waited_for() -> None:
    sleeper = Sleeper()
    when = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    script = [refuses(429, retry_after=when), says(ACTION)]
    outcome, _ = outcome_of(*script, sleep=sleeper, wait_s_max=7_200, timeout_s=7_200)

    answered(outcome)
    assert [1_800 < waited <= 3_600 for waited in sleeper.asked] == [True]


def test_retry_after_is_capped() -> None:
    sleeper = Sleeper()
    outcome, _ = outcome_of(
        refuses(429, retry_after="3600"), says(ACTION), sleep=sleeper, wait_s_max=2.5
    )

    answered(outcome)
    assert sleeper.asked == [2.5]


@pytest.mark.parametrize("nonsense", ["soon", "-5", "1e400", ""])
def test_a_retry_after_that_says_nothing_is_a_growing_wait(nonsense: str) -> None:
    sleeper = Sleeper()
    outcome, _ = outcome_of(
        *[refuses(429, retry_after=nonsense)] * 3, says(ACTION), sleep=sleeper, wait_s_max=1.2
    )

    answered(outcome)
    first, second, third = sleeper.asked
    assert 0.5 <= first <= 1.0 <= second <= 1.2 == third


def test_a_wait_beyond_the_total_time_is_not_begun() -> None:
    sleeper = Sleeper()
    script = [refuses(429, retry_after="3600"), says(ACTION)]
    outcome, server = outcome_of(*script, sleep=sleeper, wait_s_max=7_200, timeout_s=1_800)

    assert failed(outcome).code is BROKEN
    assert sleeper.asked == []
    assert len(server.asked) == 1


def test_a_request_that_hangs_is_tried_again_and_booked_at_its_bound() -> None:
    # A busy computer may not send a request, or not answer the second one, in so short a time.
    for request_s_max in (0.5, 5.0, 60.0):
        outcome, server = outcome_of(hangs(), says(ACTION), request_s_max=request_s_max)
        if isinstance(outcome, Answered):
            break
    answer = answered(outcome)

    assert len(server.asked) == 2
    assert answer.usage == TokenUsage(input_tokens=120, output_tokens=30, requests=2, unmeasured=1)
    assert answer.cost_micro > 36


def test_two_requests_that_hang_are_a_timeout_however_many_attempts_are_left() -> None:
    # A busy computer may not send a request in so short a time.
    for request_s_max in (0.2, 2.0, 60.0):
        with OpenAIServer([hangs()] * 9) as server:
            limits: dict[str, Any] = {"request_s_max": request_s_max, "attempts_max": 9}
            model = model_at(server, sleep=Sleeper(), **limits)
            estimate = model.estimate_micro(question())
            outcome = ask(model, question())
        if len(server.asked) == outcome.usage.requests:
            break

    assert failed(outcome).code is LATE
    # No third one: each may be billed although nothing came of it.
    assert outcome.usage.requests == 2
    assert 0 < outcome.cost_micro == estimate


def test_the_total_time_ends_a_request_that_hangs() -> None:
    # A busy computer may not begin with the request in so short a time.
    for timeout_s in (0.3, 3.0, 60.0):
        outcome, _ = outcome_of(hangs(), timeout_s=timeout_s)
        if outcome.usage.requests:
            break

    assert failed(outcome).code is LATE
    assert failed(outcome).detail == f"openai:gpt-4o-mini did not answer within {timeout_s:g} s."
    assert outcome.usage == TokenUsage(requests=1, unmeasured=1)
    assert outcome.cost_micro > 0


def test_a_slow_drip_does_not_outlive_the_total_time() -> None:
    outcome, _ = outcome_of(says(ACTION, drip_s=0.05), timeout_s=0.5)

    assert failed(outcome).code is LATE


def test_nobody_listening_is_a_provider_error_that_costs_nothing() -> None:
    with OpenAIServer() as server:
        model = model_at(server, sleep=Sleeper(), attempts_max=2)
    outcome = ask(model, question())

    assert failed(outcome).code is BROKEN
    assert outcome.usage == TokenUsage(requests=2)
    assert outcome.cost_micro == 0


def test_an_answer_that_breaks_off_is_tried_again() -> None:
    outcome, server = outcome_of(breaks_off(), says(ACTION))

    assert answered(outcome).usage.unmeasured == 1
    assert len(server.asked) == 2


def test_no_correction_is_left_after_a_request_that_may_be_billed() -> None:
    wrong = says({**ACTION, "capability": "rm"})
    outcome, server = outcome_of(breaks_off(), wrong, says(ACTION))

    assert failed(outcome).code is INVALID
    assert len(server.asked) == 2


def test_a_cancelled_question_stays_cancelled() -> None:
    async def cancel() -> None:
        with OpenAIServer([hangs()]) as server:
            model = model_at(server)
            task = asyncio.create_task(model.answer(question(), timeout_s=60))
            assert await asyncio.to_thread(server.was_asked.wait, 60)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert task.cancelled()
            await model.close()

    asyncio.run(cancel())


def test_a_question_cancelled_between_two_attempts_stays_cancelled() -> None:
    async def cancel() -> None:
        waiting = asyncio.Event()

        async def sleep(seconds: float) -> None:
            del seconds
            waiting.set()
            await asyncio.Event().wait()

        with OpenAIServer([refuses(429)]) as server:
            model = model_at(server, sleep=sleep)
            task = asyncio.create_task(model.answer(question(), timeout_s=60))
            await waiting.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert len(server.asked) == 1
            await model.close()

    asyncio.run(cancel())
