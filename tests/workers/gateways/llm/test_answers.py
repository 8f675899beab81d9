"""What a provider is told of an answer, and which answers are taken."""

from __future__ import annotations

import asyncio

from pydantic import BaseModel, ConfigDict

from interlock.workers.config import Settings
from interlock.workers.gateways.llm.language_model import open_model
from interlock.workers.gateways.llm.outcome import Answered, Unanswered
from tests.fakes.openai_server import OpenAIServer, says


class Remark(BaseModel):
    remark: str = ""


class Loose(BaseModel):
    model_config = ConfigDict(extra="allow")


def asked(answer: type[BaseModel]) -> tuple[object, object]:
    """Return what the provider is told of further fields, and the answer that has one."""

    async def once(url: str) -> Answered[BaseModel] | Unanswered:
        model = open_model(
            Settings(model="openai:gpt-4o-mini", model_base_url=url, model_api_key="k")
        )
        assert model is not None
        question = model.question("reading", "", "read", answer=answer, tokens_max=100)
        try:
            return await question.ask(timeout_s=60)
        finally:
            await model.close()

    with OpenAIServer([says({"remark": "good", "why": "it is"})]) as server:
        found = asyncio.run(once(server.url))
    schema = server.asked[0].body["tools"][0]["function"]["parameters"]
    assert isinstance(found, Answered)
    return schema["additionalProperties"], found.answer


def test_a_provider_is_told_of_no_further_fields_and_an_answer_with_one_is_taken() -> None:
    assert asked(Remark) == (False, Remark(remark="good"))


def test_a_provider_is_told_that_an_answer_may_have_any_fields_where_it_may() -> None:
    assert asked(Loose)[0] is True
