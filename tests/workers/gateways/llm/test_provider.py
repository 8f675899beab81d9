from __future__ import annotations

import asyncio
import json
import warnings
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from kernel.autonomy import Tier
from tests.fakes.openai_server import (
    OpenAIServer,
    Reply,
    Script,
    breaks_off,
    completion,
    empty,
    hangs,
    refuses,
    says,
    silent,
    truncated_json,
)
from tests.workers.gateways.llm.asking import (
    ACTION,
    CONTEXT,
    INTENT,
    Sleeper,
    ask,
    model_at,
    question,
)
from workers.gateways.llm.outcome import Answered, Failed, FailureCode, Usage
from workers.gateways.llm.question import PROMPT_VERSION, Question, Target

INVALID = FailureCode.INVALID_OUTPUT
BROKEN = FailureCode.PROVIDER_ERROR
LATE = FailureCode.TIMEOUT


def outcome_of(
    *script: Script, asked: Question | None = None, timeout_s: float = 20.0, **options: Any
) -> tuple[Answered | Failed, OpenAIServer]:
    options.setdefault("sleep", Sleeper())
    with OpenAIServer(script, otherwise=refuses(418)) as server:
        model = model_at(server, **options)
        return ask(model, asked or question(), timeout_s=timeout_s), server


def failed(outcome: Answered | Failed) -> Failed:
    assert isinstance(outcome, Failed), outcome
    assert outcome.detail.startswith("openai:gpt-4o-mini ")
    assert "\n" not in outcome.detail
    return outcome


def answered(outcome: Answered | Failed) -> Answered:
    assert isinstance(outcome, Answered), outcome
    return outcome


def test_an_answer_has_its_proposal_its_usage_and_its_cost() -> None:
    outcome, server = outcome_of(says(ACTION))
    answer = answered(outcome)
    proposal = answer.proposals[Target.ACTION]

    assert list(answer.proposals) == [Target.ACTION]
    assert {**proposal.payload, "confidence": 0.9} == {**ACTION}
    assert proposal.confidence == 0.9
    assert proposal.prompt_version == PROMPT_VERSION
    assert answer.usage == Usage(input_tokens=120, output_tokens=30, requests=1)
    # 120 tokens at 0.15 and 30 at 0.60 dollars a million, rounded up.
    assert answer.cost_micro == 36
    assert answer.model == "openai:gpt-4o-mini"
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("target", "said"), [(Target.INTENT, INTENT), (Target.CONTEXT, CONTEXT)], ids=str
)
def test_each_phase_has_its_own_shape(target: Target, said: dict[str, Any]) -> None:
    outcome, _ = outcome_of(says(said), asked=question(target))
    proposal = answered(outcome).proposals[target]

    assert {**proposal.payload, "confidence": proposal.confidence} == said


def test_a_combined_answer_costs_once() -> None:
    said = {"intent": INTENT, "context": CONTEXT, "action": ACTION}
    alone, _ = outcome_of(says(ACTION))
    outcome, server = outcome_of(says(said), asked=question(Target.COMBINED))
    answer = answered(outcome)

    assert list(answer.proposals) == [Target.INTENT, Target.CONTEXT, Target.ACTION]
    assert [one.confidence for one in answer.proposals.values()] == [0.8, 0.7, 0.9]
    assert (answer.cost_micro, answer.usage) == (alone.cost_micro, alone.usage)
    assert len(server.asked) == 1


@pytest.mark.parametrize("status", [429, 529, 500, 503, 408])
def test_a_transient_error_is_tried_again(status: int) -> None:
    outcome, server = outcome_of(refuses(status), says(ACTION))

    # A refused request is not billed.
    assert answered(outcome).usage == Usage(input_tokens=120, output_tokens=30, requests=2)
    assert outcome.cost_micro == 36
    assert len(server.asked) == 2


@pytest.mark.parametrize("status", [429, 529, 500])
def test_attempts_are_capped(status: int) -> None:
    outcome, server = outcome_of(*[refuses(status)] * 9, attempts_max=3)

    assert failed(outcome).code is BROKEN
    assert f"status {status}" in failed(outcome).detail
    assert "after 3 requests" in failed(outcome).detail
    assert len(server.asked) == 3
    assert outcome.usage == Usage(requests=3)
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
    moment = datetime.now(UTC) + timedelta(seconds=9)
    when = format_datetime(moment, usegmt=True)
    outcome, _ = outcome_of(refuses(429, retry_after=when), says(ACTION), sleep=sleeper)

    answered(outcome)
    assert [5 < waited <= 9 for waited in sleeper.asked] == [True]


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
    outcome, server = outcome_of(
        refuses(429, retry_after="8"), says(ACTION), sleep=sleeper, timeout_s=5.0
    )

    assert failed(outcome).code is BROKEN
    assert sleeper.asked == []
    assert len(server.asked) == 1


def test_a_request_that_hangs_is_tried_again_and_booked_at_its_bound() -> None:
    outcome, server = outcome_of(hangs(), says(ACTION), request_s_max=0.2)
    answer = answered(outcome)

    assert len(server.asked) == 2
    assert answer.usage == Usage(input_tokens=120, output_tokens=30, requests=2, unmeasured=1)
    assert answer.cost_micro > 36


def test_two_requests_that_hang_are_a_timeout_however_many_attempts_are_left() -> None:
    with OpenAIServer([hangs()] * 9) as server:
        model = model_at(server, request_s_max=0.2, sleep=Sleeper(), attempts_max=9)
        estimate = model.estimate_micro(question())
        outcome = ask(model, question())

    assert failed(outcome).code is LATE
    # No third one: each may be billed although nothing came of it.
    assert len(server.asked) == 2
    assert 0 < outcome.cost_micro == estimate


def test_the_total_time_ends_a_request_that_hangs() -> None:
    outcome, server = outcome_of(hangs(), timeout_s=0.3)

    assert failed(outcome).code is LATE
    assert failed(outcome).detail == "openai:gpt-4o-mini did not answer within 0.3 s."
    assert outcome.usage == Usage(requests=1, unmeasured=1)
    assert outcome.cost_micro > 0
    assert len(server.asked) == 1


def test_a_slow_drip_does_not_outlive_the_total_time() -> None:
    outcome, _ = outcome_of(says(ACTION, drip_s=0.05), timeout_s=0.5)

    assert failed(outcome).code is LATE


def test_nobody_listening_is_a_provider_error_that_costs_nothing() -> None:
    with OpenAIServer() as server:
        model = model_at(server, sleep=Sleeper(), attempts_max=2)
    outcome = ask(model, question())

    assert failed(outcome).code is BROKEN
    assert outcome.usage == Usage(requests=2)
    assert outcome.cost_micro == 0


def test_an_answer_that_breaks_off_is_tried_again() -> None:
    outcome, server = outcome_of(breaks_off(), says(ACTION))

    assert answered(outcome).usage.unmeasured == 1
    assert len(server.asked) == 2


@pytest.mark.parametrize(
    ("script", "code"),
    [
        (truncated_json(), BROKEN),
        (empty(), BROKEN),
        (Reply(b"\xff\xfe\x00"), BROKEN),
        (Reply(b"[1, 2]"), INVALID),
        (Reply(b"null"), INVALID),
        (Reply(b'{"choices": null}'), INVALID),
        (lambda asked: Reply(completion(asked, {}).replace(b'"message": {}', b'"no": 1')), INVALID),
    ],
    ids=["truncated", "empty", "bytes", "list", "null", "no choices", "no message"],
)
def test_a_success_that_is_none_is_never_an_empty_success(
    script: Script, code: FailureCode
) -> None:
    outcome, server = outcome_of(script)

    assert failed(outcome).code is code
    assert len(server.asked) == 1
    # It may be billed, and nobody says how much.
    assert outcome.usage == Usage(requests=1, unmeasured=1)


def test_an_empty_list_of_choices_is_invalid_output() -> None:
    body = {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": []}
    outcome, _ = outcome_of(Reply(json.dumps(body).encode()))

    assert failed(outcome).code is INVALID


@pytest.mark.parametrize(
    "broken",
    [
        says('{"kind": "standard", "capab'),
        says({"kind": "dance"}),
        says({**ACTION, "surprise": 1}),
        says({**ACTION, "confidence": 1.01}),
        says({**ACTION, "confidence": -0.1}),
        says({**ACTION, "confidence": True}),
        says({**ACTION, "confidence": None}),
        says('{"confidence": NaN}'),
        says({**ACTION, "capability": None}),
        says({**ACTION, "capability": "rm"}),
        says({**ACTION, "parameters": {}}),
        says({**ACTION, "parameters": {"text": "milk", "copies": "two"}}),
        says({**ACTION, "parameters": {"text": "milk", "record_id": "other"}}),
        says({**ACTION, "kind": "suggestion", "summary": ""}),
        says({**ACTION, "kind": "clarification"}),
        silent(),
    ],
)
def test_a_model_may_correct_itself_once(broken: Script) -> None:
    outcome, server = outcome_of(broken, says(ACTION))

    assert answered(outcome).usage == Usage(input_tokens=240, output_tokens=60, requests=2)
    assert outcome.cost_micro == 72
    assert len(server.asked) == 2

    outcome, server = outcome_of(broken, broken, says(ACTION))

    assert failed(outcome).code is INVALID
    assert outcome.usage == Usage(input_tokens=240, output_tokens=60, requests=2)
    assert len(server.asked) == 2


def test_invalid_parameters_are_named_by_their_path() -> None:
    wrong = says({**ACTION, "parameters": {"text": "milk", "copies": "two"}})
    outcome, server = outcome_of(wrong, wrong)

    assert "parameters.copies: 'two' is not of type 'integer'" in failed(outcome).detail
    assert "parameters.copies" in server.asked[1].prompt


def test_an_empty_intent_is_invalid_output() -> None:
    blank = says({"intent": "  ", "confidence": 0.9})
    outcome, _ = outcome_of(blank, blank, asked=question(Target.INTENT))

    assert failed(outcome).code is INVALID


def test_an_item_that_nobody_knows_is_invalid_output() -> None:
    invented = says({**CONTEXT, "item_ids": ["i1", "i9"]})
    outcome, _ = outcome_of(invented, invented, asked=question(Target.CONTEXT))

    assert failed(outcome).code is INVALID
    assert "there is no item 'i9'" in failed(outcome).detail


def test_a_clarification_may_lack_parameters() -> None:
    asks = {**ACTION, "kind": "clarification", "parameters": {}, "blocked_on": "what to write"}
    outcome, _ = outcome_of(says(asks))

    assert answered(outcome).proposals[Target.ACTION].payload["blocked_on"] == "what to write"


def test_a_risk_that_is_not_declared_is_the_worst() -> None:
    bare = {key: ACTION[key] for key in ("kind", "capability", "parameters", "confidence")}
    outcome, _ = outcome_of(says({**bare, "irreversibility": "moderate"}))
    payload = answered(outcome).proposals[Target.ACTION].payload

    assert payload["irreversibility"] == payload["regret_potential"] == "high"
    assert payload["risk_amplifier"] is True


@pytest.mark.parametrize(
    "absurd",
    [
        {"prompt_tokens": -5, "completion_tokens": 30},
        {"prompt_tokens": 120, "completion_tokens": -1},
        {"prompt_tokens": 10**9 + 1, "completion_tokens": 30},
        {"prompt_tokens": 120, "completion_tokens": 10**30},
        {"prompt_tokens": "many", "completion_tokens": 30},
        {"prompt_tokens": 1.5, "completion_tokens": 30},
    ],
)
def test_absurd_usage_is_invalid_output_and_is_not_free(absurd: dict[str, Any]) -> None:
    with OpenAIServer([says(ACTION, usage={**absurd, "total_tokens": 1})]) as server:
        model = model_at(server)
        estimate = model.estimate_micro(question())
        outcome = ask(model, question())

    assert failed(outcome).code is INVALID
    assert outcome.usage == Usage(requests=1, unmeasured=1)
    assert 0 < outcome.cost_micro < estimate


def test_a_model_that_calls_itself_otherwise_has_the_same_price() -> None:
    def renamed(name: str) -> Script:
        said = says(ACTION)
        assert not isinstance(said, Reply)
        return lambda asked: Reply(said(asked).body.replace(b"gpt-4o-mini", name.encode()))

    for name in ("", "the-blue-one"):
        outcome, _ = outcome_of(renamed(name))
        assert answered(outcome).cost_micro == 36
        assert answered(outcome).usage.priced


def test_absurd_usage_is_not_free_where_warnings_are_ignored() -> None:
    absurd = {"prompt_tokens": -5, "completion_tokens": 30, "total_tokens": 25}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcome, _ = outcome_of(says(ACTION, usage=absurd))

    assert failed(outcome).code is INVALID


@pytest.mark.parametrize(
    "usage", [None, {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}]
)
def test_usage_that_is_not_reported_is_booked_at_its_bound(usage: dict[str, int] | None) -> None:
    outcome, _ = outcome_of(says(ACTION, usage=usage))

    assert answered(outcome).usage == Usage(requests=1, unmeasured=1)
    assert outcome.cost_micro > 36


def test_a_model_on_no_price_list_costs_nothing_and_says_so() -> None:
    with OpenAIServer([says(ACTION), hangs(), hangs()]) as server:
        model = model_at(server, "my-own:7b", request_s_max=0.2, sleep=Sleeper())
        answer = ask(model, question())
        late = ask(model, question())

    assert answer.usage == Usage(input_tokens=120, output_tokens=30, requests=1, priced=False)
    assert not late.usage.priced
    assert answer.cost_micro == late.cost_micro == model.estimate_micro(question()) == 0
    assert server.asked[0].model == "my-own:7b"


def test_the_estimate_bounds_the_dearest_course() -> None:
    most = {"prompt_tokens": 900, "completion_tokens": 1024, "total_tokens": 1924}
    wrong = says({**ACTION, "capability": "rm"}, usage=most)
    with OpenAIServer([refuses(529), wrong, wrong]) as server:
        model = model_at(server, sleep=Sleeper())
        outcome = ask(model, question())

        assert outcome.cost_micro <= model.estimate_micro(question())
        assert len(server.asked) == 3


@pytest.mark.parametrize(
    ("tier", "tokens"),
    [
        (Tier.LOCAL_TOOL_CALLING, 1024),
        (Tier.LOCAL_FAST, 1024),
        (Tier.FRONTIER_FAST, 1024),
        (Tier.FRONTIER_BALANCED, 4096),
        (Tier.FRONTIER_BEST, 8192),
    ],
)
def test_a_tier_bounds_the_output(tier: Tier, tokens: int) -> None:
    _, server = outcome_of(says(ACTION), asked=question(tier=tier))

    assert server.asked[0].body["max_completion_tokens"] == tokens


@pytest.mark.parametrize("tier", [Tier.USER, Tier.AGENT_HEADLESS])
def test_a_tier_that_is_no_model_asks_no_model(tier: Tier) -> None:
    outcome, server = outcome_of(asked=question(tier=tier))

    assert isinstance(outcome, Failed)
    assert f"The tier {tier.value!r} is not answered by a language model." == outcome.detail
    assert server.asked == []


def test_a_tier_may_have_a_model_of_its_own() -> None:
    with OpenAIServer(otherwise=says(ACTION)) as server:
        tiers = {Tier.FRONTIER_BEST: "openai:gpt-4o", Tier.LOCAL_FAST: "embedded:wordllama"}
        model = model_at(server, tier_models=tiers)
        outcomes = [ask(model, question(tier=tier)) for tier in (*tiers, Tier.FRONTIER_FAST)]

    assert [one.model for one in outcomes] == [*tiers.values(), "openai:gpt-4o-mini"]
    assert [one.model for one in server.asked] == ["gpt-4o", "gpt-4o-mini"]


def test_a_cancelled_question_stays_cancelled() -> None:
    async def cancel() -> None:
        with OpenAIServer([hangs()]) as server:
            model = model_at(server)
            task = asyncio.create_task(model.answer(question(), timeout_s=60))
            assert await asyncio.to_thread(server.was_asked.wait, 10)
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


def test_many_questions_wait_side_by_side() -> None:
    async def gather() -> float:
        with OpenAIServer(otherwise=says(ACTION, delay_s=0.5)) as server:
            model = model_at(server)
            loop = asyncio.get_running_loop()
            began = loop.time()
            asked = [model.answer(question(), timeout_s=60) for _ in range(20)]
            outcomes = await asyncio.gather(*asked)
            assert all(isinstance(one, Answered) for one in outcomes)
            await model.close()
            return loop.time() - began

    # One after the other they would take ten.
    assert asyncio.run(gather()) < 5


def test_questions_of_one_model_are_booked_apart() -> None:
    async def both() -> list[Answered | Failed]:
        with OpenAIServer(otherwise=says(ACTION)) as server:
            model = model_at(server)
            asked = [model.answer(question(), timeout_s=20) for _ in range(2)]
            outcomes = await asyncio.gather(*asked)
            await model.close()
            return list(outcomes)

    assert [one.cost_micro for one in asyncio.run(both())] == [36, 36]


def test_a_model_outlives_the_event_loop_it_was_first_used_in() -> None:
    with OpenAIServer(otherwise=says(ACTION)) as server:
        model = model_at(server)

        assert [type(ask(model, question())) for _ in range(3)] == [Answered] * 3


def test_a_lone_surrogate_in_the_request_stops_nothing() -> None:
    asked = question()
    asked = replace(asked, inciting={**asked.inciting, "text": "broken \ud83d here"})
    outcome, _ = outcome_of(says(ACTION), asked=asked)

    answered(outcome)
