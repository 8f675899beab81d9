from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from interlock.systems.threads.inference.question import Target
from interlock.systems.threads.tier import Tier
from interlock.workers.gateways.llm.outcome import Answered, FailureCode, TokenUsage, Unanswered
from tests.fakes.openai_server import (
    OpenAIServer,
    Reply,
    Script,
    completion,
    empty,
    hangs,
    says,
    silent,
    truncated_json,
)
from tests.systems.threads.inference.questions import (
    ACTION,
    ADD_NOTE,
    BROKEN,
    CONTEXT,
    INTENT,
    INVALID,
    answered,
    ask,
    failed,
    model_at,
    outcome_of,
    question,
)
from tests.waiting import until


@pytest.mark.parametrize(
    ("target", "answer"), [(Target.INTENT, INTENT), (Target.CONTEXT, CONTEXT)], ids=str
)
def test_each_phase_has_a_shape(target: Target, answer: dict[str, Any]) -> None:
    outcome, _ = outcome_of(says(answer), asked=question(target))
    proposal = answered(outcome).answer[target]

    assert {**proposal.payload, "confidence": proposal.confidence} == answer


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
    assert outcome.usage == TokenUsage(requests=1, unmeasured=1)


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

    assert answered(outcome).usage == TokenUsage(input_tokens=240, output_tokens=60, requests=2)
    assert outcome.cost_micro == 72
    assert len(server.asked) == 2


@pytest.mark.parametrize("broken", [says({"kind": "dance"}), silent()])
def test_a_model_does_not_correct_itself_twice(broken: Script) -> None:
    outcome, server = outcome_of(broken, broken, says(ACTION))

    assert failed(outcome).code is INVALID
    assert outcome.usage == TokenUsage(input_tokens=240, output_tokens=60, requests=2)
    assert len(server.asked) == 2


def test_invalid_parameters_are_named_by_their_path() -> None:
    wrong = says({**ACTION, "parameters": {"text": "milk", "copies": "two"}})
    outcome, server = outcome_of(wrong, wrong)

    assert "parameters.copies: 'two' is not of type 'integer'" in failed(outcome).detail
    assert "parameters.copies" in server.asked[1].prompt


def test_a_parameter_bound_at_run_time_is_refused_where_the_schema_is_open() -> None:
    sets_key = says({**ACTION, "parameters": {"text": "milk", "key": "mine"}})
    asked = question(catalog=(replace(ADD_NOTE, parameters={"type": "object"}),))
    outcome, _ = outcome_of(sets_key, sets_key, asked=asked)

    assert failed(outcome).code is INVALID
    assert "parameters.key: it is filled in at run time" in failed(outcome).detail


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
    clarification = {
        **ACTION,
        "kind": "clarification",
        "parameters": {},
        "blocked_on": "what to write",
    }
    outcome, _ = outcome_of(says(clarification))

    assert answered(outcome).answer[Target.ACTION].payload["blocked_on"] == "what to write"


def test_a_risk_that_is_not_declared_is_the_worst() -> None:
    bare = {key: ACTION[key] for key in ("kind", "capability", "parameters", "confidence")}
    outcome, _ = outcome_of(says({**bare, "irreversibility": "moderate"}))
    payload = answered(outcome).answer[Target.ACTION].payload

    assert payload["irreversibility"] == payload["regret_potential"] == "high"
    assert payload["risk_amplifier"] is True


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

    assert isinstance(outcome, Unanswered)
    assert f"The tier {tier.value!r} is not answered by a language model." == outcome.detail
    assert server.asked == []


def test_a_tier_may_have_a_model_of_its_own() -> None:
    with OpenAIServer(otherwise=says(ACTION)) as server:
        tiers = {Tier.FRONTIER_BEST: "openai:gpt-4o", Tier.LOCAL_FAST: "embedded:wordllama"}
        model = model_at(server, tier_models=tiers)
        outcomes = [ask(model, question(tier=tier)) for tier in (*tiers, Tier.FRONTIER_FAST)]

    assert [outcome.model for outcome in outcomes] == [*tiers.values(), "openai:gpt-4o-mini"]
    assert [request.model for request in server.asked] == ["gpt-4o", "gpt-4o-mini"]


def test_many_questions_wait_side_by_side() -> None:
    async def gather() -> None:
        with OpenAIServer(otherwise=hangs()) as server:
            model = model_at(server, request_s_max=600)
            waiting = [
                asyncio.create_task(model.answer(question(), timeout_s=600)) for _ in range(20)
            ]
            # None is answered, so that those that waited for another one would never be asked.
            all_asked = partial(until, lambda: len(server.asked) == 20, what="all are asked")
            await asyncio.to_thread(all_asked)
            for each in waiting:
                each.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
            await model.close()

    asyncio.run(gather())


def test_a_model_outlives_the_event_loop_it_was_first_used_in() -> None:
    with OpenAIServer(otherwise=says(ACTION)) as server:
        model = model_at(server)

        assert [type(ask(model, question())) for _ in range(3)] == [Answered] * 3


def test_a_lone_surrogate_in_the_request_stops_nothing() -> None:
    asked = question()
    asked = replace(asked, inciting={**asked.inciting, "text": "broken \ud83d here"})
    outcome, _ = outcome_of(says(ACTION), asked=asked)

    answered(outcome)
