from __future__ import annotations

import asyncio
import warnings
from decimal import Decimal
from typing import Any

import pytest

from interlock.systems.threads.inference.outcome import InferenceOutcome
from interlock.systems.threads.inference.question import PROMPT_VERSION, Target
from interlock.workers.gateways.llm.cost import micro
from interlock.workers.gateways.llm.outcome import (
    TokenUsage,
    UnknownPriceError,
)
from tests.fakes.openai_server import (
    OpenAIServer,
    Reply,
    Script,
    breaks_off,
    refuses,
    says,
)
from tests.fakes.sleeper import Sleeper
from tests.systems.threads.inference.questions import (
    ACTION,
    CONTEXT,
    INTENT,
    INVALID,
    answered,
    ask,
    failed,
    model_at,
    model_named,
    outcome_of,
    question,
)


def test_an_answer_has_its_proposal_its_usage_and_its_cost() -> None:
    outcome, server = outcome_of(says(ACTION))
    answer = answered(outcome)
    proposal = answer.answer[Target.ACTION]

    assert list(answer.answer) == [Target.ACTION]
    assert {**proposal.payload, "confidence": 0.9} == {**ACTION}
    assert proposal.confidence == 0.9
    assert proposal.prompt_version == PROMPT_VERSION
    assert answer.usage == TokenUsage(input_tokens=120, output_tokens=30, requests=1)
    # 120 tokens at 0.15 and 30 at 0.60 dollars a million, rounded up.
    assert answer.cost_micro == 36
    assert answer.model == "openai:gpt-4o-mini"
    assert len(server.asked) == 1


def test_a_combined_answer_costs_once() -> None:
    given = {"intent": INTENT, "context": CONTEXT, "action": ACTION}
    alone, _ = outcome_of(says(ACTION))
    outcome, server = outcome_of(says(given), asked=question(Target.COMBINED))
    answer = answered(outcome)

    assert list(answer.answer) == [Target.INTENT, Target.CONTEXT, Target.ACTION]
    assert [proposal.confidence for proposal in answer.answer.values()] == [0.8, 0.7, 0.9]
    assert (answer.cost_micro, answer.usage) == (alone.cost_micro, alone.usage)
    assert len(server.asked) == 1


def test_a_cost_is_rounded_up() -> None:
    assert [micro(Decimal(usd)) for usd in ("0", "0.0000001", "0.000001")] == [0, 1, 1]


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
    assert outcome.usage == TokenUsage(requests=1, unmeasured=1)
    assert 0 < outcome.cost_micro < estimate


def test_a_model_that_calls_itself_otherwise_has_the_same_price() -> None:
    def renamed(name: str) -> Script:
        given = says(ACTION)
        assert not isinstance(given, Reply)
        return lambda asked: Reply(given(asked).body.replace(b"gpt-4o-mini", name.encode()))

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

    assert answered(outcome).usage == TokenUsage(requests=1, unmeasured=1)
    assert outcome.cost_micro > 36


def test_a_model_on_no_price_list_is_marked_as_such() -> None:
    with OpenAIServer([says(ACTION), breaks_off(), breaks_off()]) as server:
        model = model_at(server, "my-own:7b", sleep=Sleeper())
        answer = ask(model, question())
        broken = ask(model, question())

    assert answer.usage == TokenUsage(input_tokens=120, output_tokens=30, requests=1, priced=False)
    assert not broken.usage.priced
    assert answer.cost_micro == broken.cost_micro == 0
    with pytest.raises(UnknownPriceError, match="INTERLOCK_MODEL_PRICES=my-own:7b=INPUT/OUTPUT "):
        model.estimate_micro(question())
    assert server.asked[0].model == "my-own:7b"


@pytest.mark.parametrize(
    ("spec", "price", "cost_micro"),
    [("my-own:7b", (0, 0), 0), ("my-own:7b", (10, 100), 4_200), ("openai:gpt-4o", (10, 0), 1_200)],
)
def test_a_price_of_the_settings_counts(
    spec: str, price: tuple[float, float], cost_micro: int
) -> None:
    with OpenAIServer([says(ACTION)]) as server:
        model = model_named(spec, base_url=server.url, prices={spec: price})
        answer = ask(model, question())

    assert (answer.cost_micro, answer.usage.priced) == (cost_micro, True)
    assert model.estimate_micro(question()) >= cost_micro


def test_the_estimate_bounds_the_dearest_course() -> None:
    most = {"prompt_tokens": 900, "completion_tokens": 1024, "total_tokens": 1924}
    wrong = says({**ACTION, "capability": "rm"}, usage=most)
    with OpenAIServer([refuses(529), wrong, wrong]) as server:
        model = model_at(server, sleep=Sleeper())
        outcome = ask(model, question())

        assert outcome.cost_micro <= model.estimate_micro(question())
        assert len(server.asked) == 3


def test_questions_of_one_model_are_booked_apart() -> None:
    async def both() -> list[InferenceOutcome]:
        with OpenAIServer(otherwise=says(ACTION)) as server:
            model = model_at(server)
            asked = [model.answer(question(), timeout_s=60) for _ in range(2)]
            outcomes = await asyncio.gather(*asked)
            await model.close()
            return list(outcomes)

    assert [answer.cost_micro for answer in asyncio.run(both())] == [36, 36]
