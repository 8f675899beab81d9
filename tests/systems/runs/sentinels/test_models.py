"""The models of sentinels: their answers, their costs, and the marks around their material."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from interlock.systems.runs.sentinels.call import FatalSentinelError, SentinelCallError
from interlock.systems.runs.sentinels.models import SentinelModels
from interlock.workers.config import Settings
from interlock.workers.gateways.llm.language_model import LanguageModel, open_model
from interlock.workers.gateways.llm.model import open_exchange
from interlock.workers.gateways.llm.options import NO_PRICES, ExchangeLimits, ModelPrices
from tests.fakes.openai_server import OpenAIServer, Script, hangs, refuses, writes
from tests.fakes.sleeper import Sleeper

MODEL = "openai:gpt-4o-mini"


def opens(
    base_url: str | None, prices: ModelPrices = NO_PRICES, **limits: Any
) -> Callable[[str], LanguageModel]:
    """Return a function that opens a model by its name, with limits that no deployment sets."""

    def open_named(name: str) -> LanguageModel:
        return LanguageModel(
            open_exchange(
                name,
                variable="model",
                base_url=base_url,
                api_key=None,
                limits=ExchangeLimits(**limits),
                prices=prices,
            )
        )

    return open_named


def asked(*script: Script, timeout_s: float = 60.0) -> tuple[str, list[int], OpenAIServer]:
    """Ask once; the answer, or the sentence on why there is none, comes with what was booked."""
    booked: list[int] = []
    with OpenAIServer(script, otherwise=refuses(418)) as server:
        models = SentinelModels(opens(server.url, sleep=Sleeper()), capped=True)
        models.open(MODEL)
        models.open(MODEL)

        async def once() -> str:
            try:
                return await models.ask(
                    MODEL, "Look closely.", "{}", timeout_s=timeout_s, book=booked.append
                )
            except SentinelCallError as error:
                return str(error)
            finally:
                await models.close()

        return asyncio.run(once()), booked, server


def test_an_answer_comes_with_its_price() -> None:
    answer, booked, server = asked(writes("all is well"))

    assert (answer, booked) == ("all is well", [36])
    system, message_text = (str(message["content"]) for message in server.asked[0].body["messages"])
    assert system.startswith("Look closely.\n\n")
    [marker] = re.findall(r"`BEGIN ([0-9a-f]{32}) <name>`", system)
    assert message_text == f"BEGIN {marker} events\n{{}}\nEND {marker} events"


def test_a_provider_that_refuses_is_a_failure() -> None:
    answer, booked, _ = asked(refuses(400))

    assert answer.startswith(f"{MODEL} refused with status 400")
    assert booked == [0]


def test_a_request_without_an_answer_is_booked_at_its_bound() -> None:
    # A busy computer may not begin with the request in so short a time.
    for timeout_s in (0.3, 3.0, 60.0):
        answer, booked, _ = asked(hangs(), timeout_s=timeout_s)
        if any(booked):
            break

    assert answer == f"{MODEL} did not answer within {timeout_s:g} s."
    assert booked[0] > 36


@pytest.mark.parametrize("name", ["embedded:wordllama", "no-such-provider:x", "openai:"])
def test_a_name_that_is_no_language_model_is_refused(name: str) -> None:
    settings = Settings(model_api_key="key")
    models = SentinelModels(partial(open_model, settings, variable="model"), capped=False)

    with pytest.raises(FatalSentinelError, match=f"model={name} "):
        models.open(name)


@pytest.mark.parametrize(("capped", "prices"), [(False, {}), (True, {"mine": (0, 0)})])
def test_a_budget_needs_the_price_of_the_model(
    *, capped: bool, prices: dict[str, tuple[float, float]]
) -> None:
    address = "http://127.0.0.1:9/v1"
    SentinelModels(opens(address, prices), capped=capped).open("mine")

    with pytest.raises(FatalSentinelError, match="set INTERLOCK_MODEL_PRICES=mine=INPUT/OUTPUT"):
        SentinelModels(opens(address), capped=True).open("mine")
